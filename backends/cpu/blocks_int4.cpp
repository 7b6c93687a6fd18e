// int4 as checkpoints ship it. Codes are two's complement, two to a byte, the earlier element low.
//   int4_g32_bf16     ".scale" bf16 per 32 elements
//   int4_g32_packed   the same, eight codes to a little-endian int32: from the lowest bits on the elements 0
//                     2 4 6 1 3 5 7
//   int4_ch_tensor    ".scale" f32 per row, ".scale_2" f32 [1]: x = code * scale * scale_2
//   int4_g32_tensor   ".scale" f32 per 32 elements, ".scale_2" f32 [1]
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

constexpr std::int64_t kGroup = 32;

std::int64_t linear(std::int64_t element) { return element; }
std::int64_t reordered(std::int64_t element) {
  constexpr std::int64_t kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};
  return element / 8 * 8 + kPlace[element % 8];
}
using Place = std::int64_t (*)(std::int64_t element);

int code_at(const std::byte* row, std::int64_t nibble) {
  const int code = std::to_integer<int>(row[nibble / 2]) >> (nibble % 2 * 4) & 0xF;
  return (code ^ 8) - 8;  // sign-extended
}
void put_code(std::byte* row, std::int64_t nibble, int code) {
  const int shift = static_cast<int>(nibble % 2 * 4);
  row[nibble / 2] = (row[nibble / 2] & std::byte(0xF0 >> shift)) | std::byte((code & 0xF) << shift);
}

float absmax_of(const float* x, std::int64_t n) {
  float absmax = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (std::isfinite(x[i])) absmax = std::fmax(absmax, std::fabs(x[i]));
  return absmax;
}
float or_one(float scale) { return scale == 0 ? 1.0F : scale; }

// The bf16 scale of group g of a row: one of 16 bits.
std::byte* bf16_scale(const Planes& planes, std::int64_t row, std::int64_t g) {
  return mutable_row(*planes.scale, row) + 2 * g;
}

template <Place kPlace>
void read_groups(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  const std::byte* codes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) out[i] = static_cast<float>(code_at(codes, kPlace(i)));
  for (std::int64_t i = 0; i < planes.length; i += kGroup) {
    float scale = 0;
    engine.from_bf16(bf16_scale(planes, row, i / kGroup), &scale, 1);
    engine.scale(scale, out + i, kGroup);
  }
}

template <Place kPlace>
void write_groups(const Planes& planes, const Engine& engine, std::int64_t row, const float* values) {
  std::byte* codes = mutable_row(*planes.payload, row);
  for (std::int64_t first = 0; first < planes.length; first += kGroup) {
    float scale = bf16_value(bf16_code(absmax_of(values + first, kGroup) / 7.0F));
    if (scale == 0) scale = 1;
    engine.to_bf16(&scale, bf16_scale(planes, row, first / kGroup), 1);
    for (std::int64_t i = first; i < first + kGroup; ++i)
      put_code(codes, kPlace(i), round_to_integer(values[i] / scale, -7, 7));
  }
}

// How many elements share a ".scale".
std::int64_t per_row(const Planes& planes) { return planes.length; }
std::int64_t per_32(const Planes&) { return kGroup; }
using Group = std::int64_t (*)(const Planes& planes);

// One rounding to f32: code and scales have 51 bits together.
template <Group kSize>
void read_two_scales(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  const std::byte* codes = row_bytes(*planes.payload, row);
  const std::int64_t size = kSize(planes), groups = planes.length / size;
  const double second = f32_at(*planes.scale_2, 0);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    const double first = f32_at(*planes.scale, row * groups + i / size);
    out[i] = static_cast<float>(code_at(codes, i) * (first * second));
  }
}

template <Group kSize>
void write_two_scales(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  std::byte* codes = mutable_row(*planes.payload, row);
  const std::int64_t size = kSize(planes), groups = planes.length / size;
  const float second = f32_at(*planes.scale_2, 0);
  std::vector<float> in_fp8(static_cast<std::size_t>(size));
  for (std::int64_t first = 0; first < planes.length; first += size) {
    for (std::int64_t i = 0; i < size; ++i)
      in_fp8[static_cast<std::size_t>(i)] =
          small_value(kE4m3fn, small_code(kE4m3fn, values[first + i] / second));
    const float scale = or_one(absmax_of(in_fp8.data(), size) / 7.0F);
    put_f32(*planes.scale, row * groups + first / size, scale);
    for (std::int64_t i = 0; i < size; ++i)
      put_code(codes, first + i, round_to_integer(in_fp8[static_cast<std::size_t>(i)] / scale, -7, 7));
  }
}

}  // namespace

#define ASSAY_BLOCK(name, read, write)                                                                   \
  void read_##name(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {           \
    read(planes, engine, row, out);                                                                      \
  }                                                                                                      \
  void write_##name(const Planes& planes, const Engine& engine, std::int64_t row, const float* values) { \
    write(planes, engine, row, values);                                                                  \
  }
ASSAY_BLOCK(int4_g32_bf16, read_groups<linear>, write_groups<linear>)
ASSAY_BLOCK(int4_g32_packed, read_groups<reordered>, write_groups<reordered>)
ASSAY_BLOCK(int4_ch_tensor, read_two_scales<per_row>, write_two_scales<per_row>)
ASSAY_BLOCK(int4_g32_tensor, read_two_scales<per_32>, write_two_scales<per_32>)
#undef ASSAY_BLOCK

}  // namespace assay_cpu
