#include "reference/real/exact_dot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/real/exact_dot.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

int64_t dot_int64_loop(const int32_t* a, const int32_t* b, size_t n) {
#if HWY_TARGET == HWY_SCALAR  // one lane: no even and odd halves
  int64_t sum = 0;
  size_t i = 0;
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<int32_t> d;
  const hn::ScalableTag<int64_t> wide;
  const size_t lanes = hn::Lanes(d);
  auto even = hn::Zero(wide);
  auto odd = hn::Zero(wide);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, a + i);
    const auto y = hn::LoadU(d, b + i);
    const auto x_odd = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x)));
    const auto y_odd = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, y)));
    even = hn::Add(even, hn::MulEven(x, y));
    odd = hn::Add(odd, hn::MulEven(x_odd, y_odd));
  }
  int64_t sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(even, odd)));
#endif
  for (; i < n; ++i) sum += static_cast<int64_t>(a[i]) * b[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(dot_int64_loop);

namespace {

void require_equal_sizes(const char* what, std::size_t a, std::size_t b) {
  if (a != b) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{}: rows of {} and {} elements; they must agree", what, a, b));
  }
}

/// log2 of the largest power of two that divides x, x finite and not 0.
int lsb_exponent(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int biased = static_cast<int>((bits >> 52) & 0x7FF);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFF;
  const std::uint64_t significand = biased == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
  return std::max(biased, 1) - 1075 + std::countr_zero(significand);
}

template <class T>
RowGrid grid_of(std::span<const T> row) {
  constexpr int kNone = 2000;
  int lowest = kNone;
  RowGrid grid;
  for (const T element : row) {
    const double x = element;
    if (!std::isfinite(x)) return {std::abs(x), std::abs(x), std::numeric_limits<double>::quiet_NaN()};
    grid.sum_abs += std::abs(x);
    grid.max_abs = std::max(grid.max_abs, std::abs(x));
    if (x != 0) lowest = std::min(lowest, lsb_exponent(x));
  }
  grid.lsb = lowest == kNone ? std::numeric_limits<double>::infinity() : std::ldexp(1.0, lowest);
  return grid;
}

}  // namespace

std::int64_t dot_int64(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  require_equal_sizes("dot_int64", a.size(), b.size());
  if (a.size() > (std::size_t{1} << 27)) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("dot_int64: {} terms; at most 2^27 fit 63 bits", a.size()));
  }
  return HWY_DYNAMIC_DISPATCH(dot_int64_loop)(a.data(), b.data(), a.size());
}

Int128 dot_int128(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  require_equal_sizes("dot_int128", a.size(), b.size());
  Int128 sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<Int128>(a[i]) * b[i];
  return sum;
}

double round_to_double(Int128 sum, int exponent) { return std::ldexp(static_cast<double>(sum), exponent); }

RowGrid row_grid(std::span<const double> row) { return grid_of(row); }
RowGrid row_grid(std::span<const float> row) { return grid_of(row); }

bool double_dot_is_exact(const RowGrid& q, double max_abs_k, double lsb_k) {
  if (q.max_abs == 0 && max_abs_k < std::numeric_limits<double>::infinity()) return q.lsb > 0;
  if (max_abs_k == 0) return q.sum_abs < std::numeric_limits<double>::infinity() && q.lsb > 0;
  const double unit = q.lsb * lsb_k;
  if (!(unit >= 0x1p-1074) || !(unit <= 0x1p900)) return false;
  // In units of the grids both factors are integers while they are below 2^53, so the products are computed
  // exactly or are rounded to at least 2^53.
  return (q.sum_abs / q.lsb) * (max_abs_k / lsb_k) < 0x1p53;
}

void split_on_row_grid(std::span<const double> q, std::span<double> high, std::span<double> low) {
  require_equal_sizes("split_on_row_grid: high", q.size(), high.size());
  require_equal_sizes("split_on_row_grid: low", q.size(), low.size());
  double max_abs = 0;
  for (const double x : q) max_abs = std::isfinite(x) ? std::max(max_abs, std::abs(x)) : HUGE_VAL;
  if (!(max_abs < 0x1p990)) {
    throw InputError(InputErrorKind::bad_value,
                     "split_on_row_grid: an element is not below 2^990 in magnitude");
  }
  // Adding 1.5 * 2^52 grids rounds to a multiple of the grid; never below the subnormal spacing.
  const int exponent = max_abs == 0 ? 0 : std::max(std::ilogb(max_abs) + 1 - kRowGridBits, -1074);
  const double shift = std::ldexp(1.5, exponent + 52);
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double x = q[i];
    high[i] = (x + shift) - shift;
    low[i] = x - high[i];
  }
}

}  // namespace assay
#endif
