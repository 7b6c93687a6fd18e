#include "reference/ops/merged_moments.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace assay {
namespace {

// The lanes of a block times the numbers that a lane reads at once.
constexpr double kMostOfABlock = 8192;

double empty_merges(Order order, double n) {
  const double lanes = order == Order::lanes ? static_cast<double>(order.count) : kMostOfABlock;
  return lanes > n ? std::ceil(std::log2(lanes / n)) : 0;
}

}  // namespace

MergedErrors merged_errors(std::span<const double> x, double squares, Order order, double div_ulp,
                           const Machine& acc) {
  const double n = static_cast<double>(x.size());
  const double empty = empty_merges(order, n), h = order.height(n) + empty;
  const double g = gamma_n(2 * div_ulp + 3, acc.unit);
  const double rounding_of_one = div_ulp > 0.5 ? (2 * div_ulp + 1) * acc.unit : 0;
  const double halves = 2 * n * std::max(1.0, std::log2(n));  // E^2 of this is D
  std::vector<double> magnitudes;
  magnitudes.reserve(x.size());
  double least = kInfinity, largest = -kInfinity, square_sum = 0, flushed = 0;
  for (const double each : x) {
    magnitudes.push_back(std::fabs(each));
    least = std::min(least, each);
    largest = std::max(largest, each);
    square_sum += each * each;
    flushed = std::max(flushed, read(each, acc).error);
  }
  std::sort(magnitudes.begin(), magnitudes.end(), std::greater<>());
  const double range = largest - least, most = magnitudes.front();

  // The largest W(s) and W(s) / s, and of V alike.
  double w = empty * most, w_slope = empty * most, v = 0, v_slope = 0, taken = magnitudes.front(), below = 0,
         at_root = w;
  for (std::size_t i = 1; i < magnitudes.size(); ++i) {
    const double s = static_cast<double>(i + 1);
    taken += magnitudes[i];
    below += taken;
    const double w_s = std::min(h * taken, below + empty * taken) / s;
    const double v_s = std::min(range * std::min(h, (s + 1) / 2),
                                std::sqrt(squares * std::min(h, (s + 1) * (2 * s + 1) / (6 * s))));
    w = std::max(w, w_s), w_slope = std::max(w_slope, w_s / s);
    v = std::max(v, v_s), v_slope = std::max(v_slope, v_s / s);
    at_root = w_s + v_s;
  }
  // Sums of n doubles, in a few operations each.
  const double inflate = 1 + 16 * n * kUnit64;
  const double second = 2 * g * h;
  if (!(second < 0.5)) return {kInfinity, kInfinity, false};
  // What does not shrink with s: flushed inputs, the first division of a part, underflow of the operations of a merge.
  const double constant = flushed + rounding_of_one * most + 4 * (h + 1) * (acc.tiny + acc.tiny_add);
  const double largest_error = (g * (w + v) + constant) / (1 - second) * inflate;
  const double rest = second * largest_error + constant;

  const double of_slope = (n + 2) * (n + 2) * (n + 2) / 3;
  const double of_height = 2 * square_sum * h * (h + 1) * (2 * h + 1) / 6;
  const double d_w = g * std::sqrt(std::min({w_slope * w_slope * of_slope, halves * w * w, of_height}));
  const double d_v = g * std::sqrt(std::min(v_slope * v_slope * of_slope, halves * v * v));
  const double d = (d_w + d_v + std::sqrt(halves) * rest) * inflate;
  const double relative = gamma_n(2 * h + 2 * div_ulp + 7, acc.unit);
  const double root = std::sqrt(squares);
  const double sum = (root + d) * (root + d);
  // A square that underflows is still multiplied by n_A n_B / n.
  const double underflow = (halves + 8 * n) * (acc.tiny + acc.tiny_add);
  const double error =
      (2 * root * d + d * d + relative * sum + (rounding_of_one * square_sum + underflow) * (1 + relative)) *
      inflate;
  if (!(relative < kInfinity)) return {kInfinity, kInfinity, false};
  return {up((g * at_root + rest) * inflate), up(error), true};
}

}  // namespace assay
