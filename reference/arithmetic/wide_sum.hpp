// The exact sum of floating-point terms of any exponents, rounded once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "reference/arithmetic/rounding.hpp"

namespace assay {

// A sum of any width: 32-bit digits with room for carries, from 2^-320 to 2^384.
class WideSum {
 public:
  void add(Int128 significand, int scale) {
    const int position = scale - kLowest;
    const auto digit = static_cast<std::size_t>(position / 32);
    Int128 shifted = significand * (Int128{1} << (position % 32));
    for (std::size_t i = digit; i < digit + 3; ++i) {
      digits_[i] += static_cast<std::int64_t>(shifted & 0xffffffff);
      shifted >>= 32;
    }
    digits_[digit + 3] += static_cast<std::int64_t>(shifted);
  }
  double rounded(const Precision& f, Rounding rounding) {
    carry();
    const bool negative = digits_.back() < 0;
    if (negative) {
      for (std::int64_t& d : digits_) d = -d;
      carry();
    }
    std::size_t top = digits_.size();
    while (top > 0 && digits_[top - 1] == 0) --top;
    if (top == 0) return 0;
    const std::size_t low = top > 3 ? top - 3 : 0;  // 65 to 96 leading bits, and whether anything lies below
    Int128 magnitude = 0;
    for (std::size_t i = top; i-- > low;) magnitude = (magnitude << 32) | digits_[i];
    if (std::any_of(digits_.begin(), digits_.begin() + static_cast<std::ptrdiff_t>(low),
                    [](auto d) { return d != 0; }))
      magnitude |= 1;
    return round_exact(negative ? -magnitude : magnitude, kLowest + 32 * static_cast<int>(low), f, rounding,
                       OverflowTo::infinity);
  }

 private:
  static constexpr int kLowest = -320;
  void carry() {
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      digits_[i + 1] += digits_[i] >> 32;
      digits_[i] &= 0xffffffff;
    }
  }
  std::array<std::int64_t, 24> digits_{};
};

}  // namespace assay
