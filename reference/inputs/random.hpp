// Seeded draws that are the same bits on every machine: integers and exact operations only, no libm.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "reference/mix.hpp"

namespace assay {

// A stream is a pure function of (seed, name, index): drawing element 7 never needs elements 0 to 6, so a
// case can be shrunk, sharded or regenerated in any order and keep its bits.
class Stream {
 public:
  constexpr Stream(std::uint64_t seed, std::string_view name) : key_(mix(seed)) {
    for (char c : name) key_ = mix(key_ ^ static_cast<unsigned char>(c));
  }
  constexpr std::uint64_t bits(std::uint64_t index) const { return mix(key_ ^ mix(index)); }
  // Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }
  // In [0, n); the bias of the remainder is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t n) const { return bits(index) % n; }
  // Mean 0, variance 1, |x| < 8.1: a binomial of 64 coins smoothed by a uniform (variance 16 + 1/12). Its
  // kurtosis is 2.97; the tails of a true normal beyond 5 sigma are the business of the outlier fills.
  constexpr double gaussian(std::uint64_t index) const {
    const std::uint64_t coins = bits(2 * index);
    const double smooth = static_cast<double>(bits(2 * index + 1) >> 11) * 0x1p-53 - 0.5;
    return (static_cast<double>(std::popcount(coins) - 32) + smooth) *
           0.24935149047701483;  // 1/sqrt(16 + 1/12)
  }

 private:
  std::uint64_t key_;
};

}  // namespace assay
