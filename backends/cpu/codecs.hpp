// Scalar codes: value of a code, and the code nearest to a value (ties to even). Small floats are one row of
// data each.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay_cpu {

enum class Top : std::uint8_t {
  ieee,        // highest exponent: Inf and NaN
  nan_only,    // S.11..1 is NaN, no Inf
  minus_zero,  // the code of -0 is the only NaN
  finite,      // every code is a number
};

struct SmallFloat {
  std::string_view name;
  int exponent_bits;
  int fraction_bits;
  int bias;
  Top top;
  float largest;
};

inline constexpr SmallFloat kE4m3fn{"e4m3fn", 4, 3, 7, Top::nan_only, 448.0F};
inline constexpr SmallFloat kE4m3fnuz{"e4m3fnuz", 4, 3, 8, Top::minus_zero, 240.0F};
inline constexpr SmallFloat kE5m2{"e5m2", 5, 2, 15, Top::ieee, 57344.0F};
inline constexpr SmallFloat kE5m2fnuz{"e5m2fnuz", 5, 2, 16, Top::minus_zero, 57344.0F};
inline constexpr SmallFloat kE2m1{"e2m1", 2, 1, 1, Top::finite, 6.0F};
inline constexpr SmallFloat kE3m2{"e3m2", 3, 2, 3, Top::finite, 28.0F};
inline constexpr SmallFloat kE2m3{"e2m3", 2, 3, 1, Top::finite, 7.5F};

float small_value(const SmallFloat& format, std::uint32_t code);
// Saturates beyond the largest finite value, Inf included. NaN gives the format's NaN, or +largest where it
// has none.
std::uint32_t small_code(const SmallFloat& format, double x);

float f16_value(std::uint16_t code);
std::uint16_t f16_code(float x);  // overflow to Inf
float bf16_value(std::uint16_t code);
std::uint16_t bf16_code(float x);  // overflow to Inf
float e4m3fn_value(std::uint8_t code);
float e4m3fnuz_value(std::uint8_t code);
float e5m2_value(std::uint8_t code);
float e8m0_value(std::uint8_t code);  // 2^(code - 127); 0xFF is NaN
// x rounded to the nearest integer, ties to even, held to [low, high]; NaN gives high.
int round_to_integer(float x, int low, int high);

}  // namespace assay_cpu
