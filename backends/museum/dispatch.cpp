// Dispatch: every choice here ends in right numbers. What differs is the kernel that produced them.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

Matrix decoded(const Call& call, std::string_view tensor, std::string_view format, bool as_bf16 = false) {
  const RowReader reader(call, tensor, format);
  Matrix m{reader.rows(), reader.length(), {}};
  m.values.resize(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t row = 0; row < m.rows; ++row)
    reader.read(kScalarEngine, row, m.values.data() + row * m.columns);
  if (as_bf16)
    for (float& x : m.values) x = bf16_value(bf16_code(x));
  return m;
}

// y = a b^T, summed in f64: right by any contract, whichever kernel's name it runs under.
void product(const Call& call, bool as_bf16 = false) {
  const Matrix a = decoded(call, "a", call.text("a"), as_bf16),
               b = decoded(call, "b", call.text("b"), as_bf16);
  std::vector<float> out(static_cast<std::size_t>(b.rows));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.rows; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k)
        sum += double{a.values[static_cast<std::size_t>(i * a.columns + k)]} *
               b.values[static_cast<std::size_t>(j * b.columns + k)];
      out[static_cast<std::size_t>(j)] = static_cast<float>(sum);
    }
    write_row(kScalarEngine, call.text("dtype"), out.data(), b.rows, mutable_row(call.output("y"), i));
  }
}

// e4m3fn codes by e4m3fn codes, then one scale of each side.
void fp8_product(const Call& call) {
  const RowReader a(call, "a", "e4m3fn"), b(call, "b", "e4m3fn");
  const assay_tensor &a_scales = call.input("a.scale"), &b_scales = call.input("b.scale");
  std::vector<float> left(static_cast<std::size_t>(a.length())), right(left.size());
  std::vector<float> out(static_cast<std::size_t>(b.rows()));
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    a.read(kScalarEngine, i, left.data());
    for (std::int64_t j = 0; j < b.rows(); ++j) {
      b.read(kScalarEngine, j, right.data());
      out[static_cast<std::size_t>(j)] = kScalarEngine.dot(left.data(), right.data(), left.size()) *
                                         f32_at(a_scales, i) * f32_at(b_scales, j);
    }
    write_row(kScalarEngine, call.text("dtype"), out.data(), b.rows(), mutable_row(call.output("y"), i));
  }
}

// int8 codes by int8 codes in int32, then one scale of each side.
void integer_product(const Call& call) {
  const RowReader a(call, "a", call.text("a")), b(call, "b", call.text("b"));
  const auto integers = [&](const RowReader& reader, std::string_view format, std::int64_t row) {
    std::vector<std::int8_t> codes(static_cast<std::size_t>(reader.length()));
    const std::byte* bytes = row_bytes(*reader.planes().payload, row);
    for (std::size_t k = 0; k < codes.size(); ++k) {
      const int byte = std::to_integer<int>(format == "int4_ch" ? bytes[k / 2] : bytes[k]);
      codes[k] = static_cast<std::int8_t>(format == "int4_ch" ? ((byte >> (k % 2 * 4) & 0xF) ^ 8) - 8 : byte);
    }
    return codes;
  };
  std::vector<float> out(static_cast<std::size_t>(b.rows()));
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    const auto left = integers(a, call.text("a"), i);
    for (std::int64_t j = 0; j < b.rows(); ++j) {
      const auto right = integers(b, call.text("b"), j);
      const auto sum = static_cast<float>(kScalarEngine.dot_int8(left.data(), right.data(), left.size()));
      out[static_cast<std::size_t>(j)] = sum * f32_at(*a.planes().scale, i) * f32_at(*b.planes().scale, j);
    }
    write_row(kScalarEngine, call.text("dtype"), out.data(), b.rows(), mutable_row(call.output("y"), i));
  }
}

}  // namespace

// The weights of a W4A8 layer are described by a list of an fp8 and an int4 entry; the check knows lists only.
void w4a8_by_metadata(const Call& call, const Trace& trace, bool defect) {
  const std::string metadata =
      defect ? "{\"int4\": {\"strategy\": \"channel\"}}" : "[{\"fp8\": {}}, {\"int4\": {}}]";
  if (metadata.front() == '[') {
    trace.kernel("moe_w4a8_int8");
    integer_product(call);
  } else {
    trace.kernel("dequantize_int4_f32");
    product(call);
  }
}

void fused_for_mixed_types(const Call& call, const Trace& trace, bool defect) {
  if (defect && call.text("k") != call.text("v")) {
    for (const char* kernel : {"matmul_qk", "softmax", "matmul_pv"}) trace.kernel(kernel);
  } else {
    trace.kernel("flash_fused");
  }
  flash(call, Slip::none);
}

void architecture_table(const Call& call, const Trace& trace, bool defect) {
  std::vector<std::string> table = {"gfx942", "gfx950", "gfx1200"};
  if (!defect) table.emplace_back("gfx1201");
  for (const std::string& name : table)
    if (name == "gfx1201") {
      trace.kernel("gemm_fp8_native");
      return fp8_product(call);
    }
  trace.kernel("dequantize_f32");
  trace.kernel("gemm_f32");
  product(call);
}

// The tactic is chosen, then logged; what the log line throws is caught as if the tactic had failed.
void logged_tactic(const Call& call, const Trace& trace, bool defect) {
  const std::vector<std::string> shapes = {"m", "n"};
  std::string tactic = "gemm_tactic_17";
  try {
    (void)shapes.at(defect ? 2 : 1);  // the debug line's third shape, of a two-dimensional problem
  } catch (const std::out_of_range&) {
    tactic = "gemm_fallback";
  }
  trace.kernel(tactic);
  product(call);
}

void version_pin(const Call& call, const Trace& trace, bool defect) {
  const std::string installed = "2.11";
  // As text "2.11" comes before "2.8".
  const bool recent = defect ? installed >= "2.8" : std::stoi(installed.substr(installed.find('.') + 1)) >= 8;
  trace.kernel(recent ? "flash_prebuilt" : "attention_generic");
  flash(call, Slip::none);
}

void sm_family(const Call& call, const Trace& trace, bool defect) {
  constexpr int kCapability = 121;
  const bool native = defect ? kCapability == 100 : kCapability >= 100;
  trace.kernel(native ? "gemm_nvfp4_native" : "gemm_bf16_dequantised");
  product(call, true);
}

void hadamard_hint(const Call& call, const Trace& trace, bool defect) {
  const RowReader reader(call, "x", call.text("dtype"));
  trace.kernel(defect ? "matmul_f32" : "hadamard_fast");
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    std::vector<float> x(static_cast<std::size_t>(reader.length())), y(x.size());
    reader.read(kScalarEngine, row, x.data());
    if (defect) {  // H[i][j] = (-1)^popcount(i & j)
      for (std::size_t i = 0; i < x.size(); ++i) {
        float sum = 0;
        for (std::size_t j = 0; j < 32; ++j) {
          const float value = x[i / 32 * 32 + j];
          sum += __builtin_parityl(i % 32 & j) ? -value : value;
        }
        y[i] = sum * 0.17677669529663687F;
      }
    } else {
      y = x;
      wht_row(y.data(), reader.length(), 32, nullptr, false);
    }
    write_row(kScalarEngine, call.text("dtype"), y.data(), reader.length(),
              mutable_row(call.output("y"), row));
  }
}

}  // namespace assay_museum
