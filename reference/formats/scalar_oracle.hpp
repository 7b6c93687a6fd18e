// For tests: what encode() must return, by looking the number up in the sorted list of a format's values. It
// shares nothing with the codec: values come from pow on the textbook formula, rounding from comparing with
// midpoints.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/formats/scalar.hpp"

namespace assay {

class ScalarOracle {
 public:
  explicit ScalarOracle(const ScalarFormat& format) : format_(format) {
    const int codes = 1 << (format.exponent_bits + format.fraction_bits);
    for (int code = 0; code < codes; ++code) {
      const int exponent = code >> format.fraction_bits;
      const double fraction =
          (code & ((1 << format.fraction_bits) - 1)) / std::pow(2.0, format.fraction_bits);
      const double value = exponent == 0 ? fraction * std::pow(2.0, 1 - format.bias)
                                         : (1 + fraction) * std::pow(2.0, exponent - format.bias);
      if (value <= format.max_finite) values_.push_back(value);
    }
    values_.push_back(2 * values_.back() - values_[values_.size() - 2]);  // the range "as if it went on"
  }

  const std::vector<double>& values() const {
    return values_;
  }  // magnitudes, one step beyond max_finite included
  std::size_t top() const { return values_.size() - 2; }  // index and code of max_finite

  // x >= 0 finite; below = index of the largest value <= x, at most top() + 1. Negative x passes |x| and
  // negative.
  std::uint32_t expected(double x, std::size_t below, bool negative, const EncodePolicy& policy,
                         std::uint64_t index) const {
    std::size_t chosen = below;
    if (below <= top() && x > values_[below]) {
      const double low = values_[below];
      const double high = values_[below + 1];
      const double middle = (low + high) / 2;
      bool up = false;
      switch (policy.rounding) {
        case Rounding::nearest_even:
          up = x > middle || (x == middle && below % 2 == 1);
          break;
        case Rounding::nearest_away:
          up = x >= middle;
          break;
        case Rounding::toward_zero:
          break;
        case Rounding::toward_negative:
          up = negative;
          break;
        case Rounding::stochastic:
          up = stochastic_draw(policy.seed, index) <
               static_cast<std::uint64_t>((x - low) / (high - low) * 0x1p64);
          break;
      }
      chosen = below + (up ? 1 : 0);
    }
    if (chosen > top()) {
      const bool stays = policy.rounding == Rounding::toward_zero ||
                         (policy.rounding == Rounding::toward_negative && !negative);
      if (policy.overflow == Overflow::ieee && !stays) return overflow_code(negative);
      chosen = top();
    }
    return with_sign(static_cast<std::uint32_t>(chosen), negative);
  }

  // Any x, NaN and Inf included.
  std::uint32_t expected(double x, const EncodePolicy& policy, std::uint64_t index = 0) const {
    const bool negative = std::signbit(x);
    if (std::isnan(x)) return policy.nan == NanPolicy::zero ? 0U : not_a_number();
    if (std::isinf(x)) {
      return policy.overflow == Overflow::ieee ? overflow_code(negative)
                                               : with_sign(static_cast<std::uint32_t>(top()), negative);
    }
    const double magnitude = std::fabs(x);
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    return expected(magnitude, static_cast<std::size_t>(above - values_.begin()) - 1, negative, policy,
                    index);
  }

  std::uint32_t not_a_number() const {
    switch (format_.specials) {
      case Specials::ieee:
        return static_cast<std::uint32_t>(top()) + 1 + (1U << (format_.fraction_bits - 1));
      case Specials::nan_all_ones:
        return static_cast<std::uint32_t>(top()) + 1;
      case Specials::nan_minus_zero:
        return 1U << (format_.bits - 1);
      case Specials::none:
        break;
    }
    return static_cast<std::uint32_t>(top());
  }

 private:
  std::uint32_t with_sign(std::uint32_t code, bool negative) const {
    if (format_.specials == Specials::nan_minus_zero && code == 0) return 0;
    return negative ? code | 1U << (format_.bits - 1) : code;
  }
  std::uint32_t overflow_code(bool negative) const {
    const auto largest = static_cast<std::uint32_t>(top());
    if (format_.specials == Specials::none) return with_sign(largest, negative);
    return format_.specials == Specials::ieee ? with_sign(largest + 1, negative) : not_a_number();
  }

  ScalarFormat format_;
  std::vector<double> values_;
};

}  // namespace assay
