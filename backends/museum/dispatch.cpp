// Dispatch: every choice here ends in right numbers. What differs is the kernel that produced them.
#include <algorithm>
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

// The kernels that the choices are between, each a routine with an entry of its own: which of them ran is
// what a witness sees. None is announced: what shipped was silent too.
[[gnu::noinline]] void moe_w4a8_int8(const Call& call) { integer_product(call); }
[[gnu::noinline]] void dequantize_int4_f32(const Call& call) { product(call); }
[[gnu::noinline]] void gemm_fp8_native(const Call& call) { fp8_product(call); }
[[gnu::noinline]] void gemm_f32(const Call& call) { product(call); }
[[gnu::noinline]] void gemm_bf16_dequantised(const Call& call) { product(call, true); }
[[gnu::noinline]] void flash_fused(const Call& call) { flash(call, Slip::none); }
[[gnu::noinline]] void flash_prebuilt(const Call& call) { flash(call, Slip::none, {.tile = 16}); }

// All keys in one tile: what three kernels do that keep their logits.
constexpr std::int64_t kAllKeys = 1 << 20;
[[gnu::noinline]] void attention_unfused(const Call& call) { flash(call, Slip::none, {.tile = kAllKeys}); }
[[gnu::noinline]] void attention_generic(const Call& call) {
  flash(call, Slip::none, {.tile = kAllKeys / 2});
}

// y = a b^T column by column, each by sums of `block` products in f32 that are added in f64.
void product_in_blocks(const Call& call, bool as_bf16, std::int64_t block) {
  const Matrix a = decoded(call, "a", call.text("a"), as_bf16),
               b = decoded(call, "b", call.text("b"), as_bf16);
  std::vector<float> out(static_cast<std::size_t>(a.rows * b.rows));
  for (std::int64_t j = 0; j < b.rows; ++j)
    for (std::int64_t i = 0; i < a.rows; ++i) {
      double sum = 0;
      for (std::int64_t first = 0; first < a.columns; first += block)
        sum += static_cast<double>(kScalarEngine.dot(
            a.values.data() + i * a.columns + first, b.values.data() + j * a.columns + first,
            static_cast<std::size_t>(std::min(block, a.columns - first))));
      out[static_cast<std::size_t>(i * b.rows + j)] = static_cast<float>(sum);
    }
  for (std::int64_t i = 0; i < a.rows; ++i)
    write_row(kScalarEngine, call.text("dtype"), out.data() + i * b.rows, b.rows,
              mutable_row(call.output("y"), i));
}
[[gnu::noinline]] void gemm_nvfp4_native(const Call& call) { product_in_blocks(call, true, 16); }
[[gnu::noinline]] void gemm_tactic_17(const Call& call) { product_in_blocks(call, false, 32); }

// H[i][j] = (-1)^popcount(i & j), by 32 products for each number.
[[gnu::noinline]] void matmul_hadamard(std::vector<float>& x) {
  const std::vector<float> given = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float sum = 0;
    for (std::size_t j = 0; j < 32; ++j) {
      const float value = given[i / 32 * 32 + j];
      sum += __builtin_parityl(i % 32 & j) ? -value : value;
    }
    x[i] = sum * 0.17677669529663687F;
  }
}
[[gnu::noinline]] void hadamard_fast(std::vector<float>& x) {
  wht_row(x.data(), static_cast<std::int64_t>(x.size()), 32, nullptr, false);
}

}  // namespace

// The weights of a W4A8 layer are described by a list of an fp8 and an int4 entry; the check knows lists
// only.
void w4a8_by_metadata(const Call& call, const Trace&, bool defect) {
  const std::string metadata =
      defect ? "{\"int4\": {\"strategy\": \"channel\"}}" : "[{\"fp8\": {}}, {\"int4\": {}}]";
  metadata.front() == '[' ? moe_w4a8_int8(call) : dequantize_int4_f32(call);
}

void fused_for_mixed_types(const Call& call, const Trace&, bool defect) {
  defect&& call.text("k") != call.text("v") ? attention_unfused(call) : flash_fused(call);
}

void architecture_table(const Call& call, const Trace&, bool defect) {
  std::vector<std::string> table = {"gfx942", "gfx950", "gfx1200"};
  if (!defect) table.emplace_back("gfx1201");
  for (const std::string& name : table)
    if (name == "gfx1201") return gemm_fp8_native(call);
  gemm_f32(call);
}

// The tactic is chosen, then logged; what the log line throws is caught as if the tactic had failed.
void logged_tactic(const Call& call, const Trace&, bool defect) {
  const std::vector<std::string> shapes = {"m", "n"};
  auto tactic = gemm_tactic_17;
  try {
    (void)shapes.at(defect ? 2 : 1);  // the debug line's third shape, of a two-dimensional problem
  } catch (const std::out_of_range&) {
    tactic = gemm_f32;
  }
  tactic(call);
}

void version_pin(const Call& call, const Trace&, bool defect) {
  const std::string installed = "2.11";
  // As text "2.11" comes before "2.8".
  const bool recent = defect ? installed >= "2.8" : std::stoi(installed.substr(installed.find('.') + 1)) >= 8;
  recent ? flash_prebuilt(call) : attention_generic(call);
}

void sm_family(const Call& call, const Trace&, bool defect) {
  constexpr int kCapability = 121;
  const bool native = defect ? kCapability == 100 : kCapability >= 100;
  native ? gemm_nvfp4_native(call) : gemm_bf16_dequantised(call);
}

void hadamard_hint(const Call& call, const Trace&, bool defect) {
  const RowReader reader(call, "x", call.text("dtype"));
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    std::vector<float> x(static_cast<std::size_t>(reader.length()));
    reader.read(kScalarEngine, row, x.data());
    defect ? matmul_hadamard(x) : hadamard_fast(x);
    write_row(kScalarEngine, call.text("dtype"), x.data(), reader.length(),
              mutable_row(call.output("y"), row));
  }
}

}  // namespace assay_museum
