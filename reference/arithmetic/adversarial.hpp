// Inputs that a matrix unit's arithmetic shows on: shared by the tests of the model, of its fast form and of
// bounds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "reference/arithmetic/matrix_unit.hpp"

namespace assay::adversarial {

using Random = std::mt19937_64;

// Any finite code of the format, or one from a narrow band of exponents so that terms meet near the last bits
// kept.
class Values {
 public:
  explicit Values(std::string_view name) : format_(&scalar_format(name)) {}
  float any(Random& random) const {
    for (;;) {
      const auto code = static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << format_->bits) - 1));
      const double x = decode(*format_, code);
      if (std::isfinite(x)) return static_cast<float>(x);
    }
  }
  float near(Random& random, int exponent, int spread) const {
    const double significand = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    const int e = exponent + static_cast<int>(random() % static_cast<std::uint64_t>(2 * spread + 1)) - spread;
    const double x = std::ldexp(random() % 3 == 0 ? 1.0 : significand, e);
    return static_cast<float>(round_to(*format_, random() % 2 == 0 ? x : -x));
  }
  int exponent(Random& random) const {  // of a mid-range number
    if (format_->kind == ScalarKind::integer) return static_cast<int>(random() % 7);
    const int span = format_->exponent_bits >= 8 ? 60 : (1 << format_->exponent_bits) / 2 - 1;
    return static_cast<int>(random() % static_cast<std::uint64_t>(2 * span + 1)) - span;
  }

 private:
  const ScalarFormat* format_;
};

inline std::string_view default_input(const MatrixUnit& unit) {
  return unit.inputs.substr(0, unit.inputs.find(' '));
}

// n elements: all codes, one band, mostly zeros, or pairs that cancel with the other operand equal.
inline std::vector<float> operand(const Values& values, Random& random, std::size_t n) {
  std::vector<float> x(n);
  const auto kind = random() % 5;
  const int e = values.exponent(random);
  for (std::size_t i = 0; i < n; ++i) {
    switch (kind) {
      case 0:
        x[i] = values.any(random);
        break;
      case 1:
        x[i] = random() % 4 == 0 ? values.near(random, e, 2) : 0.0f;
        break;
      case 2:
        x[i] = i % 2 == 1 && random() % 8 != 0 ? -x[i - 1] : values.near(random, e, 1);
        break;
      case 3:
        x[i] = values.near(random, e, 12);
        break;
      default:
        x[i] = values.near(random, e, 1);
        break;
    }
  }
  return x;
}

// An accumulator of the unit: zero, near +-reference in size, equal to -reference, or anywhere in the range.
inline float accumulator_value(const MatrixUnit& unit, Random& random, double reference) {
  const Precision f = accumulator_precision(unit);
  double x = 0;
  const double noise = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      x = -reference;
      break;
    case 2:
      x = -reference * noise;
      break;
    case 3:
      x = std::ldexp(noise, static_cast<int>(random() % 250) - 140);
      break;
    default:
      x = std::ldexp(reference * noise, static_cast<int>(random() % 40) - 20);
      break;
  }
  if (random() % 2 == 0) x = -x;
  x = round_to_precision(x, f, Rounding::toward_zero);
  return std::isfinite(x) ? static_cast<float>(x) : 0;
}

inline std::vector<float> scales(const MatrixUnit& unit, Random& random, std::size_t n) {
  if (unit.scale_block == 0) return {};
  std::vector<float> x((n + static_cast<std::size_t>(unit.scale_block) - 1) /
                       static_cast<std::size_t>(unit.scale_block));
  for (float& s : x) {
    if (unit.scales == "e8m0")
      s = std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
    else
      s = std::fabs(
          static_cast<float>(decode(scalar_format("ue4m3"), static_cast<std::uint32_t>(random() % 127))));
  }
  return x;
}

// x, y of at least 3 elements become: 2^t, half a unit in the last place of that in `out`, and one bit beyond
// the last that alignment keeps: whether that bit is seen decides a tie. For c = 0.
inline void tie_and_a_sliver(const MatrixUnit& unit, Random& random, std::vector<float>& x,
                             std::vector<float>& y) {
  const Precision f = out_precision(unit);
  const int t = static_cast<int>(random() % 20) - 4;
  std::fill(x.begin(), x.end(), 0.0f);
  const std::array<int, 3> exponents = {t, t - f.p,
                                        t - unit.fraction_bits - 1 + static_cast<int>(random() % 3)};
  const ScalarFormat& format = scalar_format(default_input(unit));
  for (std::size_t i = 0; i < 3; ++i) {
    const int half = exponents[i] / 2;
    x[i] = static_cast<float>(round_to(format, std::ldexp(1.0, half)));
    y[i] = static_cast<float>(round_to(format, std::ldexp(1.0, exponents[i] - half)));
  }
}

// x, y become a pair of products that cancel, zeros and perhaps one more product; that and the result, for c,
// lie about F binades below the pair: what is left of them depends on the alignment alone.
inline double cancelling_pair(const MatrixUnit& unit, Random& random, std::vector<float>& x,
                              std::vector<float>& y) {
  const Values values(default_input(unit));
  std::fill(x.begin(), x.end(), 0.0f);
  const int span = std::min(12, (1 << scalar_format(default_input(unit)).exponent_bits) / 2 - 1);
  const int e = span - static_cast<int>(random() % 3);
  x[0] = values.near(random, e, 1);
  x[1] = -x[0];
  y[0] = y[1] = values.near(random, e, 1);
  if (x.size() > 4 && random() % 2 == 0) {  // beside the pair in every half that a unit may form
    const int low =
        std::ilogb(x[0]) + std::ilogb(y[0]) - unit.fraction_bits + static_cast<int>(random() % 4) - 2;
    x[4] = values.near(random, low / 2, 0);
    y[4] = values.near(random, low - low / 2, 0);
  }
  const double significand = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
  const double c = std::ldexp(significand, 2 * e - unit.fraction_bits + static_cast<int>(random() % 12) - 1);
  return round_to_precision(random() % 2 == 0 ? c : -c, accumulator_precision(unit), Rounding::toward_zero);
}

}  // namespace assay::adversarial
