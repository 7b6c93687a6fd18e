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

}  // namespace

double block_sum_error(std::string_view path, const OperandRow& x, const std::vector<double>& minima) {
  constexpr double u = 0x1p-24;
  constexpr double kLargestF16 = 65504;
  const double gamma = gamma_n(static_cast<double>(minima.size()) + 16, u);
  double error = 0;
  for (std::size_t first = 0; first + kBlock <= minima.size(); first += kBlock) {
    double size = 0, largest = 0, absmax = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      size += 2 * minima[i] * (x.reach.empty() ? std::fabs(x.center[i]) : x.reach[i]);
      largest = std::max(largest, minima[i]);
      absmax = std::max(absmax, std::fabs(x.exact[i]));
    }
    if (path != "q8_1" || absmax == 0) {
      error += rule(Rule::block_sum_rounding, gamma * size);
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
      return std::numeric_limits<double>::infinity();  // beside a minimum of 0 too: Inf times it is NaN
    error += rule(Rule::block_sum_rounding, gamma * size);
    const double off = s * (0x1p-11 + 0x1p-11 * (1 + 0x1p-11) + 4 * u) + 0x1p-25 * (1 + n);
    error += rule(Rule::block_sum_storage, largest * off * (1 + gamma));
  }
  return up(error * (1 + 0x1p-40));
}

double block_scale_error(std::string_view path, std::string_view element, const OperandRow& x,
                         const OperandRow& w, bool flush) {
  const double code = scalar_format(element).max_finite;
  // Of a block: the largest sum of products of codes, and the most that x or w may be above its scale.
  const double most = path == "q8_K"     ? 0x1p28
                      : path == "blocks" ? 32 * code * code
                                         : 32 * 127.0 * 127,
               above = path == "q8_K"     ? 127 * 0x1p13
                       : path == "blocks" ? code * code
                                          : 127.0 * 127;
  const double blocks = std::ceil(static_cast<double>(x.center.size()) / 32);
  if (!claims(Rule::sum_overflow, x.max_abs * w.max_abs < std::numeric_limits<float>::max()))
    return std::numeric_limits<double>::infinity();
  // Or the sum of a block of products of codes times one scale, before the other: codes of the other side.
  const double codes = path == "q8_K" ? 256 * 0x1p13 : path == "blocks" ? 32 * code : 32 * 127.0;
  if (!claims(Rule::sum_overflow, codes * std::max(x.max_abs, w.max_abs) < std::numeric_limits<float>::max()))
    return std::numeric_limits<double>::infinity();
  if (x.grid.min_abs * w.grid.min_abs >= 0x1p-126 * above) return 0;
  return rule(Rule::block_scale_underflow, blocks * most * (flush ? 0x1p-126 : 0x1p-150));
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
