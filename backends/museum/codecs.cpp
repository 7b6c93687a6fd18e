// Formats and their scales: codecs that read or write one thing differently.
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

using Row = std::vector<float>;

Row read_row(const RowReader& reader, std::int64_t row) {
  Row values(static_cast<std::size_t>(reader.length()));
  reader.read(kScalarEngine, row, values.data());
  return values;
}

void put_row(const Call& call, std::string_view tensor, std::int64_t row, const Row& values) {
  write_row(kScalarEngine, call.text("dtype"), values.data(), static_cast<std::int64_t>(values.size()),
            mutable_row(call.output(tensor), row));
}

// x -> y in format `to`, by our own writer; then spoil(row bytes, row's values) for each row.
template <class Spoil>
void quantize_then(const Call& call, Spoil spoil, bool nan_as_zero = false) {
  const Layout& to = layout(call.text("to"));
  const Planes planes = output_planes(call, "y", to);
  const RowReader x(call, "x", call.text("dtype"));
  Row all;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    for (const float value : read_row(x, row)) all.push_back(nan_as_zero && std::isnan(value) ? 0.0F : value);
  }
  write_scales(to, planes, all.data(), x.rows());
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const float* values = all.data() + row * x.length();
    to.write(planes, kScalarEngine, row, values);
    spoil(planes, row, values, x.length());
  }
}

void put_f16(std::byte* at, float x) {
  const std::uint16_t code = f16_code(x);
  std::memcpy(at, &code, sizeof code);
}

}  // namespace

// tq3_0_c2: 8 bytes of 2-bit codes, 4 bytes unused here, f16 d; x = D H r / sqrt(32).
void tq3_dequantize(const Call& call, bool wrong_centroids, bool wrong_signs) {
  const RowReader reader(call, "x", call.text("from"));
  const std::array<float, 2> centroids =
      wrong_centroids ? std::array{0.3F, 1.0F} : std::array{0.45278004F, 1.5104176F};
  const std::uint32_t signs = wrong_signs ? 0xAA6CD4B2U : 0xB1A6D4B2U;
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    const std::byte* in = row_bytes(*reader.planes().payload, row);
    Row out(static_cast<std::size_t>(reader.length()));
    for (std::size_t first = 0; first < out.size(); first += 32, in += 14) {
      std::uint16_t scale;
      std::memcpy(&scale, in + 12, sizeof scale);
      double r[32];
      for (unsigned j = 0; j < 32; ++j) {
        const unsigned code = std::to_integer<unsigned>(in[j / 4]) >> (2 * (j % 4)) & 3U;
        const float centroid = centroids[code == 0 || code == 3 ? 1 : 0];
        r[j] = double{f16_value(scale)} * (code >= 2 ? centroid : -centroid);
      }
      for (unsigned half = 1; half < 32; half *= 2)
        for (unsigned j = 0; j < 32; ++j)
          if ((j & half) == 0) {
            const double a = r[j], b = r[j + half];
            r[j] = a + b, r[j + half] = a - b;
          }
      for (unsigned j = 0; j < 32; ++j)
        out[first + j] = static_cast<float>((signs >> j & 1U ? -r[j] : r[j]) / std::sqrt(32.0));
    }
    put_row(call, "y", row, out);
  }
}

void tq3_quantize(const Call& call, ScaleSlip slip) {
  quantize_then(call, [&](const Planes& planes, std::int64_t row, const float* values, std::int64_t length) {
    std::byte* block = mutable_row(*planes.payload, row);
    for (std::int64_t first = 0; first < length; first += 32, block += 14) {
      double power = 0;
      for (std::int64_t i = first; i < first + 32; ++i) power += double{values[i]} * values[i];
      if (slip == ScaleSlip::raw_rms) put_f16(block + 12, static_cast<float>(std::sqrt(power / 32)));
      if (slip == ScaleSlip::one_for_zero_blocks && power == 0) put_f16(block + 12, 1.0F);
    }
  });
}

void dequantize_as(const Call& call, std::string_view format) {
  const RowReader reader(call, "x", format);
  for (std::int64_t row = 0; row < reader.rows(); ++row) put_row(call, "y", row, read_row(reader, row));
}

void quantize_minus_zero(const Call& call, bool defect) {
  quantize_then(call, [&](const Planes& planes, std::int64_t row, const float* values, std::int64_t length) {
    std::byte* codes = mutable_row(*planes.payload, row);
    for (std::int64_t i = 0; defect && i < length; ++i)
      if (codes[i] == std::byte{0} && std::signbit(values[i]))
        codes[i] = std::byte{0x80};  // -0 elsewhere, NaN here
  });
}

void nvfp4_dequantize(const Call& call, bool multiply, bool high_nibble_first) {
  const RowReader reader(call, "x", call.text("from"));
  const float global = f32_at(*reader.planes().global_scale, 0);
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    Row values = read_row(reader, row);
    if (multiply)
      for (float& x : values) x = x * global * global;
    if (high_nibble_first)
      for (std::size_t i = 0; i < values.size(); i += 2) std::swap(values[i], values[i + 1]);
    put_row(call, "y", row, values);
  }
}

// The 7 bits of a ue4m3 code are all magnitude; read as signed, the highest of them is a sign.
void ue4m3_scales(const Call& call, bool as_signed) {
  constexpr SmallFloat kSignedReading{"s3m3", 3, 3, 7, Top::finite, 2.0F};
  constexpr SmallFloat kUnsigned = kE4m3fn;
  const RowReader reader(call, "x", "uint8");
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    Row values = read_row(reader, row);
    for (float& x : values) {
      const auto code = static_cast<std::uint32_t>(x) & 0x7FU;
      x = small_value(as_signed ? kSignedReading : kUnsigned, code);
    }
    put_row(call, "y", row, values);
  }
}

// One scale per row, absmax / 127; code = x / scale, or x times a rounded 1 / scale.
void int8_by_reciprocal(const Call& call, bool reciprocal) {
  const Planes planes = output_planes(call, "y", layout("int8_tok"));
  const RowReader x(call, "x", call.text("dtype"));
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const Row values = read_row(x, row);
    float absmax = 0;
    for (const float value : values) absmax = std::fmax(absmax, std::fabs(value));
    const float scale = absmax == 0 ? 1.0F : absmax / 127.0F;
    const float inverse = 1.0F / scale;
    put_f32(*planes.scale, row, scale);
    std::byte* codes = mutable_row(*planes.payload, row);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float quotient = reciprocal ? values[i] * inverse : values[i] / scale;
      codes[i] = static_cast<std::byte>(round_to_integer(quotient, -127, 127));
    }
  }
}

// A maximum that drops NaN, and a code of 0 for it: the block, and the element itself, look healthy.
void quantize_hiding_nan(const Call& call, bool hides) {
  quantize_then(call, [](const Planes&, std::int64_t, const float*, std::int64_t) {}, hides);
}

// y = a b^T of decoded rows, sums in f32, stored in dtype.
void matmul_rows(const Call& call, bool first_group_only, bool drop_a_scale) {
  const std::string_view a_format = call.text("a");
  const RowReader a(call, "a", drop_a_scale ? a_format.substr(0, a_format.find('_')) : a_format);
  const RowReader b(call, "b", call.text("b"));
  std::vector<Row> weights;
  for (std::int64_t j = 0; j < b.rows(); ++j) {
    Row row = read_row(b, j);
    if (first_group_only) {  // an epilogue has one scale per channel: the first group's serves all of them
      const float own = f32_at(*b.planes().scale, j * (b.length() / 32));
      for (std::size_t k = 32; k < row.size(); ++k)
        row[k] = row[k] /
                 f32_at(*b.planes().scale, j * (b.length() / 32) + static_cast<std::int64_t>(k / 32)) * own;
    }
    weights.push_back(std::move(row));
  }
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    const Row left = read_row(a, i);
    Row out;
    for (const Row& right : weights) out.push_back(kScalarEngine.dot(left.data(), right.data(), left.size()));
    put_row(call, "y", i, out);
  }
}

}  // namespace assay_museum
