#include "reference/ops/block_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rounding.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/ops/enclosure.hpp"

namespace assay {
namespace {

constexpr std::size_t kBlock = 32;
constexpr double kLeastNormalF16 = 0x1p-14;

}  // namespace

BlockSums block_sums(std::string_view path, bool of_values, const OperandRow& x, const OperandRow& w,
                     const std::vector<double>& minima, const Precision& acc, bool flush) {
  constexpr double u = 0x1p-24;
  constexpr double kLargestF16 = 65504;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double blocks = static_cast<double>(minima.size()) / kBlock;
  const bool is_narrow = unit_roundoff(acc) > u;
  const double gamma = gamma_n(static_cast<double>(minima.size()) + 16 + (is_narrow ? 2 * blocks : 0),
                               std::max(u, unit_roundoff(acc)));
  const auto reach = [](const OperandRow& row, std::size_t i) {
    return row.reach.empty() ? std::fabs(row.center[i]) : row.reach[i];
  };
  // Each product of a sum and a minimum, and each sum of them, below the normal numbers of acc.
  const double lost = flush ? std::ldexp(1.0, acc.emin) : is_narrow ? underflow_unit(acc) : 0;
  double error = rule(Rule::block_sum_rounding, 2 * blocks * lost), shift = 0;
  double most = 0;  // sum of the magnitudes of all that is added
  for (std::size_t i = 0; i < minima.size(); ++i)
    most += reach(x, i) * (reach(w, i) + 2 * std::fabs(minima[i]));
  if (!claims(Rule::sum_overflow, most * (1 + gamma) * (1 + 0x1p-7) < largest_finite(acc)))
    return {0, kInfinite};
  for (std::size_t first = 0; first + kBlock <= minima.size(); first += kBlock) {
    double size = 0, largest = 0, absmax = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      size += 2 * std::fabs(minima[i]) * (x.reach.empty() ? std::fabs(x.center[i]) : x.reach[i]);
      largest = std::max(largest, std::fabs(minima[i]));
      absmax = std::max(absmax, std::fabs(x.exact[i]));
    }
    if (path != "q8_1" || absmax == 0) {
      error += rule(Rule::block_sum_rounding, gamma * size);
      continue;
    }
    double radius = 0;
    for (std::size_t i = first; i < first + kBlock && !x.reach.empty(); ++i)
      radius += x.reach[i] - std::fabs(x.center[i]);
    const bool is_one = std::ranges::all_of(minima.begin() + static_cast<std::ptrdiff_t>(first),
                                            minima.begin() + static_cast<std::ptrdiff_t>(first + kBlock),
                                            [&](double m) { return m == minima[first]; });
    if (of_values && is_one) {
      // 32 terms in any order, two roundings of each where it was decoded; our own sums in f64 are off by
      // less than 2^-20 of that.
      const double gamma_x = gamma_n(kBlock + 2, u) * (1 + 0x1p-20);
      double of_x = 0, of_codes = 0, absolute = 0;
      for (std::size_t i = first; i < first + kBlock; ++i) {
        of_x += x.exact[i], absolute += std::fabs(x.exact[i]), of_codes += x.center[i];
      }
      const double s = std::fabs(of_x) + gamma_x * absolute;
      if (!claims(Rule::block_sum_overflow, s * (1 + 0x1p-10) < kLargestF16)) return {0, kInfinite};
      const double moved = minima[first] * (of_x - of_codes),
                   off = gamma_x * absolute + 0x1p-11 * s + 0x1p-25 +
                         (flush ? std::min(s, kLeastNormalF16) : 0);
      shift += moved;
      error += rule(Rule::block_sum_rounding, gamma * (size + 2 * std::fabs(moved)));
      if (largest > 0) error += rule(Rule::block_sum_storage, largest * (off * (1 + gamma) + radius));
      continue;
    }
    const double d = absmax / 127;
    double sum = 0, undecided = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      const double q = x.exact[i] / d, code = std::nearbyint(q);
      sum += code;
      undecided += std::fabs(std::fabs(q - code) - 0.5) < 127 * 6 * u ? 1 : 0;
    }
    const double n = std::fabs(sum) + undecided, s = d * n;
    if (!claims(Rule::block_sum_overflow, s * (1 + 0x1p-10) < kLargestF16))
      return {0, kInfinite};  // beside a minimum of 0 too: Inf times it is NaN
    error += rule(Rule::block_sum_rounding, gamma * size);
    const double off = s * (0x1p-11 + 0x1p-11 * (1 + 0x1p-11) + 4 * u) + 0x1p-25 * (1 + n);
    if (flush && largest > 0)
      error += rule(Rule::block_sum_storage, largest * (std::min(s, kLeastNormalF16) + 2 * radius));
    error += rule(Rule::block_sum_storage, largest * off * (1 + gamma));
  }
  return {shift, up(error * (1 + 0x1p-40) + 0x1p-40 * std::fabs(shift))};
}

double block_scale_error(std::string_view path, std::array<std::string_view, 2> elements, const OperandRow& x,
                         const OperandRow& w, bool flush, bool has_minima) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const bool of_elements = path == "blocks";
  const ScalarFormat &left = scalar_format(of_elements ? elements[0] : "int8"),
                     &right = scalar_format(of_elements ? elements[1] : "int8");
  const double of_x = of_elements ? left.max_finite : 127, of_w = of_elements ? right.max_finite : 127;
  // Of a block: the largest sum of products of codes, and the most that x or w may be above its scale.
  const double most = path == "q8_K" ? 0x1p28 : 32 * of_x * of_w,
               above = path == "q8_K" ? 127 * 0x1p13 : of_x * of_w;
  const double blocks = std::ceil(static_cast<double>(x.center.size()) / (of_elements ? 16 : 32));
  if (!claims(Rule::sum_overflow, x.max_abs * w.max_abs < kLargest)) return kInfinite;
  // Or the sum of a block of products of codes times one scale, before the other: codes of the other side.
  const double to_x = path == "q8_K" ? 256 * 0x1p13 : 32 * of_w,
               to_w = path == "q8_K" ? 256 * 0x1p13 : 32 * of_x;
  if (!claims(Rule::sum_overflow, std::max(to_x * x.max_abs, to_w * w.max_abs) < kLargest)) return kInfinite;
  // Or a block's sum under both, whatever the sums of blocks are added in.
  const double elements_of_block = path == "q8_K" ? 256 : 32;
  if (!claims(Rule::sum_overflow, elements_of_block * x.max_abs * w.max_abs < kLargest)) return kInfinite;
  // Or both scales of a block whose codes are all 0: 0 Inf. One of x is at most its largest number.
  if (!claims(Rule::sum_overflow, x.max_abs * w.scale_of_zeros < kLargest)) return kInfinite;
  const double step = flush ? 0x1p-126 : 0x1p-150;
  // What is lost in front of the scales of rows (nvfp4's global ones) is multiplied by those that come after.
  const double after =
      std::max({1.0, std::fabs(x.scale), std::fabs(w.scale), std::fabs(x.scale * w.scale)}) * (1 + 0x1p-20);
  double vanished = 0;
  if (of_elements) {
    // Scales of blocks of zeros too: their product may be Inf, times a sum of 0.
    float high[2] = {0, 0}, low[2] = {HUGE_VALF, HUGE_VALF};
    for (const int side : {0, 1})
      for (const float s : side == 0 ? x.block_scales : w.block_scales)
        high[side] = std::max(high[side], s), low[side] = s > 0 ? std::min(low[side], s) : low[side];
    if (!claims(Rule::sum_overflow, static_cast<double>(high[0]) * high[1] < kLargest)) return kInfinite;
    const auto last_place = [](const ScalarFormat& f) { return 1 - f.bias - f.fraction_bits; };
    const double last = std::ldexp(1.0, last_place(left) + last_place(right));
    if (last * std::min(low[0], low[1]) < 0x1p-126)
      vanished =
          rule(Rule::block_scale_underflow, blocks * step * after * std::max({1.0F, high[0], high[1]}));
  }
  if (!has_minima && x.min_abs * w.min_abs >= 0x1p-126 * above) return vanished;
  return up(vanished +
            rule(Rule::block_scale_underflow, (has_minima ? 2 : 1) * blocks * most * step * after));
}

double block_scale_rounding(const OperandRow& x, const OperandRow& w, double roundings) {
  const auto most = [](const OperandRow& row, std::size_t i) {
    return row.reach.empty() ? std::fabs(row.center[i]) : row.reach[i];
  };
  double size = 0;
  for (std::size_t i = 0; i < x.center.size(); ++i) size += most(x, i) * most(w, i);
  const bool exact = x.reach.empty() && w.reach.empty() && size <= x.grid.lsb * w.grid.lsb * 0x1p24;
  return exact ? 0 : up(rule(Rule::product_rounding, gamma_n(roundings, 0x1p-24) * size));
}

}  // namespace assay
