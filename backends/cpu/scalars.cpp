// Scalars that are seldom tensors of their own: scales (e8m0, ue4m3), tf32 (an f32 whose low 13 bits do not
// count) and bytes (uint8).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

template <class Decode>
void read_bytes(const Planes& planes, std::int64_t row, float* out, const Decode& decode) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) out[i] = decode(std::to_integer<std::uint8_t>(bytes[i]));
}

template <class Encode>
void write_bytes(const Planes& planes, std::int64_t row, const float* values, const Encode& encode) {
  std::byte* bytes = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) bytes[i] = static_cast<std::byte>(encode(values[i]));
}

// The nearest power of two, of two at the same distance the one with the even code; nothing lies below
// 2^-127.
std::uint32_t e8m0_code(float x) {
  if (std::isnan(x)) return 0xFF;
  if (x <= 0) return 0;
  if (std::isinf(x)) return 0xFE;
  int exponent = 0;
  const float significand = 2 * std::frexp(x, &exponent);  // [1, 2)
  const int code = exponent - 1 + 127;
  if (code < 0) return 0;
  const bool up = significand > 1.5F || (significand == 1.5F && code % 2 != 0);
  return static_cast<std::uint32_t>(std::min(code + (up ? 1 : 0), 0xFE));
}

std::uint32_t tf32_bits(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (bits | 0x400000U) & ~0x1FFFU;
  const std::uint32_t rounded = (bits + 0xFFFU + (bits >> 13 & 1U)) & ~0x1FFFU;
  const bool overflow = (rounded & 0x7FFFFFFFU) == 0x7F800000U && (bits & 0x7FFFFFFFU) != 0x7F800000U;
  const bool infinite = (bits & 0x7FFFFFFFU) == 0x7F800000U;
  return overflow || infinite ? (bits & 0x80000000U) | 0x7F7FE000U : rounded;  // saturates
}

}  // namespace

void read_e8m0(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_bytes(planes, row, out, e8m0_value);
}
void write_e8m0(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_bytes(planes, row, values, e8m0_code);
}

void read_ue4m3(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_bytes(planes, row, out, [](std::uint8_t code) { return e4m3fn_value(code & 0x7F); });
}
void write_ue4m3(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_bytes(planes, row, values, [](float x) { return x < 0 ? 0U : small_code(kE4m3fn, x) & 0x7FU; });
}

void read_uint8(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_bytes(planes, row, out, [](std::uint8_t code) { return static_cast<float>(code); });
}
void write_uint8(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_bytes(planes, row, values, [](float x) { return round_to_integer(x, 0, 255); });
}

void read_tf32(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, bytes + 4 * i, sizeof bits);
    out[i] = std::bit_cast<float>(bits & ~0x1FFFU);
  }
}
void write_tf32(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  std::byte* bytes = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    const std::uint32_t bits = tf32_bits(values[i]);
    std::memcpy(bytes + 4 * i, &bits, sizeof bits);
  }
}

}  // namespace assay_cpu
