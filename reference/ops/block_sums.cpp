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
    if (largest == 0) continue;
    error += rule(Rule::block_sum_rounding, gamma * size);
    if (path != "q8_1" || absmax == 0) continue;
    const double d = absmax / 127;
    double sum = 0, undecided = 0;
    for (std::size_t i = first; i < first + kBlock; ++i) {
      const double q = x.exact[i] / d, code = std::nearbyint(q);
      sum += code;
      undecided += std::fabs(std::fabs(q - code) - 0.5) < 127 * 6 * u ? 1 : 0;
    }
    const double n = std::fabs(sum) + undecided, s = d * n;
    if (!claims(Rule::block_sum_overflow, s * (1 + 0x1p-10) < kLargestF16))
      return std::numeric_limits<double>::infinity();
    const double off = s * (0x1p-11 + 0x1p-11 * (1 + 0x1p-11) + 4 * u) + 0x1p-25 * (1 + n);
    error += rule(Rule::block_sum_storage, largest * off * (1 + gamma));
  }
  return up(error * (1 + 0x1p-40));
}

}  // namespace assay
