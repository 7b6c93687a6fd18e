#include "reference/real/row_grid.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace assay {
namespace {

/// log2 of the largest power of two that divides x, x finite and not 0.
int lsb_exponent(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int biased = static_cast<int>((bits >> 52) & 0x7FF);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFF;
  const std::uint64_t significand = biased == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  return std::max(biased, 1) - 1075 + std::countr_zero(significand);
}

}  // namespace

double lowest_bit(double x) { return std::ldexp(1.0, lsb_exponent(x)); }

RowGrid row_grid(std::span<const double> row) {
  constexpr int kNone = 2000;
  int lowest = kNone;
  RowGrid grid{.min_abs = std::numeric_limits<double>::infinity()};
  for (const double x : row) {
    if (!std::isfinite(x)) return {std::abs(x), std::abs(x), std::numeric_limits<double>::quiet_NaN(), 0};
    grid.sum_abs += std::abs(x);
    grid.max_abs = std::max(grid.max_abs, std::abs(x));
    if (x == 0) continue;
    lowest = std::min(lowest, lsb_exponent(x));
    grid.min_abs = std::min(grid.min_abs, std::abs(x));
  }
  grid.lsb = lowest == kNone ? std::numeric_limits<double>::infinity() : std::ldexp(1.0, lowest);
  return grid;
}

}  // namespace assay
