#include "backends/cpu/codecs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace assay_cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits_of(const SmallFloat& format) {
  return static_cast<std::uint32_t>(1 + format.exponent_bits + format.fraction_bits);
}

std::uint32_t nan_code(const SmallFloat& format) {
  const std::uint32_t sign = 1U << (bits_of(format) - 1);
  switch (format.top) {
    case Top::ieee:
      return (sign - 1) & ~((1U << (format.fraction_bits - 1)) - 1);  // quiet
    case Top::nan_only:
      return sign - 1;
    case Top::minus_zero:
      return sign;
    case Top::finite:
      break;
  }
  return small_code(format, format.largest);
}

using Table = std::array<float, 256>;

Table table_of(const SmallFloat& format) {
  Table table{};
  for (std::uint32_t code = 0; code < 256; ++code) table[code] = small_value(format, code);
  return table;
}

}  // namespace

float small_value(const SmallFloat& format, std::uint32_t code) {
  const std::uint32_t sign_bit = 1U << (bits_of(format) - 1);
  const std::uint32_t magnitude = code & (sign_bit - 1);
  const bool negative = (code & sign_bit) != 0;
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint32_t fraction = magnitude & ((1U << format.fraction_bits) - 1);
  if (format.top == Top::minus_zero && negative && magnitude == 0) return kNan;
  if (format.top == Top::nan_only && magnitude == sign_bit - 1) return kNan;
  if (format.top == Top::ieee && exponent == (1 << format.exponent_bits) - 1) {
    if (fraction != 0) return kNan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const std::uint32_t significand = exponent == 0 ? fraction : fraction | 1U << format.fraction_bits;
  const float value =
      std::ldexp(static_cast<float>(significand), std::max(exponent, 1) - format.bias - format.fraction_bits);
  return negative ? -value : value;
}

std::uint32_t small_code(const SmallFloat& format, double x) {
  if (std::isnan(x)) return nan_code(format);
  const std::uint32_t sign = std::signbit(x) ? 1U << (bits_of(format) - 1) : 0;
  const double magnitude = std::min(std::fabs(x), 2.0 * format.largest);
  const int lowest = 1 - format.bias;
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  // In units of the last place the code is an integer; a carry out of the fraction runs into the exponent by
  // itself.
  const double steps = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  const double rounded = std::ldexp(steps, exponent - format.fraction_bits);
  std::uint32_t code = 0;
  if (rounded > format.largest) {
    const double top = std::ldexp(static_cast<double>(format.largest), format.fraction_bits);
    const int top_exponent = std::ilogb(format.largest);
    code = (static_cast<std::uint32_t>(top_exponent + format.bias - 1) << format.fraction_bits) +
           static_cast<std::uint32_t>(std::ldexp(top, -top_exponent));
  } else {
    code = (static_cast<std::uint32_t>(exponent + format.bias - 1) << format.fraction_bits) +
           static_cast<std::uint32_t>(steps);
  }
  if (code == 0 && format.top == Top::minus_zero) return 0;  // there is no -0
  return sign | code;
}

float f16_value(std::uint16_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8000U) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(code & 0x7FFFU) << 13;
  if (magnitude >= 0x7C00U << 13) return std::bit_cast<float>(sign | magnitude | 0x7F800000U);
  // The fields moved into place stand for a value 2^112 too small: 15 against 127, subnormals included.
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F));
}

std::uint16_t f16_code(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65520 and above
  if (magnitude <
      0x38800000U) {  // below 2^-14: 0.5 has the subnormals' step, so that its sum rounds as they do
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000U) >> 13);
}

float bf16_value(std::uint16_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16); }

std::uint16_t bf16_code(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

float e4m3fn_value(std::uint8_t code) {
  static const Table table = table_of(kE4m3fn);
  return table[code];
}
float e4m3fnuz_value(std::uint8_t code) {
  static const Table table = table_of(kE4m3fnuz);
  return table[code];
}
float e5m2_value(std::uint8_t code) {
  static const Table table = table_of(kE5m2);
  return table[code];
}

float e8m0_value(std::uint8_t code) { return code == 0xFF ? kNan : std::ldexp(1.0F, code - 127); }

int round_to_integer(float x, int low, int high) {
  if (std::isnan(x)) return high;
  const float rounded = std::nearbyint(std::clamp(x, static_cast<float>(low), static_cast<float>(high)));
  return static_cast<int>(rounded);
}

}  // namespace assay_cpu
