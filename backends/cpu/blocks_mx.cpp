// Small floats with block scales in planes of their own; e2m1 codes two to a byte, the earlier element low.
//
//   mxfp4, mxfp8, mxfp8_e5m2   elements e2m1, e4m3fn, e5m2; ".scale" e8m0 per 32 elements
//                              x = code * 2^(scale - 127); the scale 255 is NaN
//                              scale - 127 = floor(log2 absmax) - floor(log2 largest code)
//   nvfp4                      elements e2m1; ".block_scale" e4m3fn per 16 elements; ".global_scale" f32 [1]
//                              x = code * block_scale / global_scale: the stored global scale is the
//                              quantising one
//   nvfp4_swizzled             as nvfp4, with the block scales of each matrix in tiles of 128 rows x 4
//                              columns, padded with 0: the scale of (row, column) of a tile is byte
//                              row % 32 * 16 + row / 32 * 4 + column
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

constexpr std::uint8_t kNanScale = 0xFF;

std::uint8_t byte_at(const assay_tensor& tensor, std::int64_t index) {
  return static_cast<std::uint8_t>(int8_at(tensor, index));
}

template <const SmallFloat& kElement>
void read_elements(const Engine& engine, const std::byte* row, std::int64_t length, float* out) {
  if constexpr (kElement.exponent_bits == 2) {
    static const std::array<float, 16> values = [] {
      std::array<float, 16> table{};
      for (std::uint32_t code = 0; code < 16; ++code) table[code] = small_value(kE2m1, code);
      return table;
    }();
    for (std::int64_t i = 0; i < length; i += 2) {
      const std::uint8_t pair = std::to_integer<std::uint8_t>(row[i / 2]);
      out[i] = values[pair & 0xF];
      out[i + 1] = values[pair >> 4];
    }
  } else {
    (kElement.exponent_bits == 5 ? engine.from_e5m2 : engine.from_e4m3fn)(row, out,
                                                                          static_cast<std::size_t>(length));
  }
}

template <const SmallFloat& kElement>
void put_code(std::byte* row, std::int64_t i, std::uint32_t code) {
  if constexpr (kElement.exponent_bits == 2) {
    // Elements come in order: the low half first.
    const std::byte other = i % 2 == 0 ? std::byte{0} : row[i / 2];
    row[i / 2] = other | static_cast<std::byte>(code << (i % 2 * 4));
  } else {
    row[i] = static_cast<std::byte>(code);
  }
}

template <const SmallFloat& kElement>
void read_mx(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  read_elements<kElement>(engine, row_bytes(*planes.payload, row), planes.length, out);
  const std::byte* scales = row_bytes(*planes.scale, row);
  for (std::int64_t i = 0; i < planes.length; i += 32) {
    engine.scale(e8m0_value(std::to_integer<std::uint8_t>(scales[i / 32])), out + i, 32);
  }
}

template <const SmallFloat& kElement>
void write_mx(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  const int top_exponent = std::ilogb(kElement.largest);
  std::byte* codes = mutable_row(*planes.payload, row);
  std::byte* scales = mutable_row(*planes.scale, row);
  for (std::int64_t first = 0; first < planes.length; first += 32) {
    float absmax = 0;
    bool nan = false;
    for (std::int64_t i = first; i < first + 32; ++i) {
      if (std::isfinite(values[i])) absmax = std::fmax(absmax, std::fabs(values[i]));
      nan = nan || std::isnan(values[i]);
    }
    const bool poisoned = nan && kElement.top == Top::finite;
    const int exponent = absmax > 0 ? std::max(std::ilogb(absmax) - top_exponent, -127) : -127;
    scales[first / 32] = poisoned ? std::byte{kNanScale} : static_cast<std::byte>(exponent + 127);
    for (std::int64_t i = first; i < first + 32; ++i) {
      const double scaled = std::ldexp(double{values[i]}, -exponent);  // 2^-exponent may be beyond f32
      put_code<kElement>(codes, i, poisoned ? 0 : small_code(kElement, scaled));
    }
  }
}

struct Linear {
  static void clear(const Planes&, std::int64_t) {}
  static std::int64_t index(const Planes& planes, std::int64_t row, std::int64_t column) {
    return row * (planes.length / 16) + column;
  }
};

struct Swizzled {
  // The padding of the matrix that begins with this row, if one does: code 0.
  static void clear(const Planes& planes, std::int64_t row) {
    const assay_tensor& scales = *planes.block_scale;
    const std::int64_t rows = planes.payload->rank > 1 ? planes.payload->shape[planes.payload->rank - 2] : 1;
    if (row % rows != 0) return;
    for (std::int64_t r = 0; r < scales.shape[scales.rank - 2]; ++r) {
      std::byte* line = mutable_row(scales, row / rows * scales.shape[scales.rank - 2] + r);
      std::fill(line, line + row_length(scales), std::byte{0});
    }
  }
  static std::int64_t index(const Planes& planes, std::int64_t row, std::int64_t column) {
    const assay_tensor& payload = *planes.payload;
    const std::int64_t rows = payload.rank > 1 ? payload.shape[payload.rank - 2] : 1;
    const std::int64_t padded_rows = (rows + 127) / 128 * 128;
    const std::int64_t padded_columns = (planes.length / 16 + 3) / 4 * 4;
    const std::int64_t r = row % rows;
    const std::int64_t tile = r / 128 * (padded_columns / 4) + column / 4;
    return row / rows * padded_rows * padded_columns + tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 +
           column % 4;
  }
};

template <class Order>
void read_nv(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  read_elements<kE2m1>(engine, row_bytes(*planes.payload, row), planes.length, out);
  const float global = f32_at(*planes.global_scale, 0);
  for (std::int64_t b = 0; b < planes.length / 16; ++b) {
    const float scale = e4m3fn_value(byte_at(*planes.block_scale, Order::index(planes, row, b)));
    for (std::int64_t i = 16 * b; i < 16 * b + 16; ++i)
      out[i] = out[i] * scale / global;  // the product is exact
  }
}

template <class Order>
void write_nv(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  Order::clear(planes, row);
  const float global = f32_at(*planes.global_scale, 0);
  std::byte* codes = mutable_row(*planes.payload, row);
  for (std::int64_t b = 0; b < planes.length / 16; ++b) {
    float absmax = 0;
    bool nan = false;
    for (std::int64_t i = 16 * b; i < 16 * b + 16; ++i) {
      if (std::isfinite(values[i])) absmax = std::fmax(absmax, std::fabs(values[i]));
      nan = nan || std::isnan(values[i]);
    }
    const double wanted = double{absmax} * global / 6;
    const std::uint8_t code = static_cast<std::uint8_t>(nan ? 0x7F : small_code(kE4m3fn, wanted));
    const float scale = e4m3fn_value(code);
    *(static_cast<std::byte*>(planes.block_scale->data) +
      element_offset(*planes.block_scale, Order::index(planes, row, b))) = std::byte{code};
    for (std::int64_t i = 16 * b; i < 16 * b + 16; ++i) {
      const double quotient = double{values[i]} * global / scale;
      put_code<kE2m1>(codes, i, scale > 0 ? small_code(kE2m1, quotient) : 0);
    }
  }
}

}  // namespace

#define ASSAY_BLOCK(name, read, write)                                                              \
  void read_##name(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {      \
    read(planes, engine, row, out);                                                                 \
  }                                                                                                 \
  void write_##name(const Planes& planes, const Engine& engine, std::int64_t row, const float* x) { \
    write(planes, engine, row, x);                                                                  \
  }
ASSAY_BLOCK(mxfp4, read_mx<kE2m1>, write_mx<kE2m1>)
ASSAY_BLOCK(mxfp8, read_mx<kE4m3fn>, write_mx<kE4m3fn>)
ASSAY_BLOCK(mxfp8_e5m2, read_mx<kE5m2>, write_mx<kE5m2>)
ASSAY_BLOCK(nvfp4, read_nv<Linear>, write_nv<Linear>)
ASSAY_BLOCK(nvfp4_swizzled, read_nv<Swizzled>, write_nv<Swizzled>)
#undef ASSAY_BLOCK

}  // namespace assay_cpu
