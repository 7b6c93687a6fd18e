#include "reference/ops/merged_moments.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace assay {
namespace {

// Terms of a block: 1024 threads that read 8 numbers each. A smaller row leaves threads without one.
constexpr double kBlockTerms = 8192, kBlockLevels = 7 + 10;

// What does not depend on the tree: the sizes of the row, and the constants of a merge.
struct Row {
  std::vector<double> magnitudes;  // descending
  double n, range, squares, square_sum;
  double constant;   // flushed inputs and the first division of a part: of every mean
  double of_square;  // of S
  double tiny;
  double steps;  // of a quotient by n
  double g, div_ulp, unit;
};

// How often at most the steps of a quotient by n are in a mean of s terms of a tree of height h: the header.
double path(double s, double h) {
  double levels = 0;
  for (double level = 1, size = 2; level <= h; ++level, size *= 2) {
    if (size >= s) {
      levels += (h - level + 1) * s;
      break;
    }
    levels += size;
  }
  return std::min(levels, (s + 1) * (2 * s + 1) / 6);
}

// empty: there are merges with parts that hold nothing.
MergedErrors over_trees(const Row& r, double h, bool empty) {
  const double halves = 2 * r.n * std::max(1.0, std::log2(r.n));  // E^2 of this is D
  double taken = r.magnitudes.front(), below = 0;
  // The largest W(s) and W(s) / s, and of V alike.
  double w = empty ? h * taken : 0, w_slope = w, v = 0, v_slope = 0, at_root = w;
  for (std::size_t i = 1; i < r.magnitudes.size(); ++i) {
    const double s = static_cast<double>(i + 1);
    taken += r.magnitudes[i];
    below += taken;
    const double w_s = (empty ? h * taken : std::min(h * taken, below)) / s;
    const double v_s = std::min(r.range * std::min(h, (s + 1) / 2),
                                std::sqrt(r.squares * std::min(h, (s + 1) * (2 * s + 1) / (6 * s))));
    w = std::max(w, w_s), w_slope = std::max(w_slope, w_s / s);
    v = std::max(v, v_s), v_slope = std::max(v_slope, v_s / s);
    at_root = w_s + v_s;
  }
  const double inflate = 1 + 16 * r.n * kUnit64;  // sums of n doubles, in a few operations each
  const double second = 2 * r.g * h;
  const double relative = rule(Rule::merge_rounding, gamma_n(2 * h + 2 * r.div_ulp + 7, r.unit));
  if (!(second < 0.5 && relative < kInfinity)) return {kInfinity, kInfinity};
  const double constant = r.constant + 4 * (h + 1) * r.tiny;
  const double of_quotients = r.steps * path(r.n, h);
  const double largest_error = (r.g * (w + v) + constant + of_quotients) / (1 - second) * inflate;
  const double rest = second * largest_error + constant;

  const double of_slope = (r.n + 2) * (r.n + 2) * (r.n + 2) / 3;
  const double of_height = 2 * r.square_sum * h * (h + 1) * (2 * h + 1) / 6;
  const double d_w = std::sqrt(std::min({w_slope * w_slope * of_slope, halves * w * w, of_height}));
  const double d_v =
      std::sqrt(std::min({v_slope * v_slope * of_slope, halves * v * v, 5.0 / 6 * r.squares * r.n * r.n}));
  const double d_steps = r.steps * (h + 1) * std::sqrt(of_slope);
  const double d = (r.g * (d_w + d_v) + std::sqrt(halves) * rest + d_steps) * inflate;
  const double root = std::sqrt(r.squares);
  // A square that underflows is still multiplied by n_A n_B / n, its quotient by n by n_A n_B.
  const double underflow = (halves + 8 * r.n) * r.tiny + r.steps * r.n * r.n / 2;
  const double error =
      2 * root * d + d * d + relative * (root + d) * (root + d) + (r.of_square + underflow) * (1 + relative);
  return {up((r.g * at_root + rest + of_quotients) * inflate), up(error * inflate)};
}

}  // namespace

MergedErrors merged_errors(std::span<const double> x, double squares, Order order, double div_ulp,
                           const Machine& acc) {
  Row r{.magnitudes = {},
        .n = static_cast<double>(x.size()),
        .range = 0,
        .squares = squares,
        .square_sum = 0,
        .constant = 0,
        .of_square = 0,
        .tiny = rule(Rule::merge_underflow, underflow_of(acc, div_ulp) + acc.tiny_add),
        .steps = rule(Rule::merge_underflow, underflow_of(acc, div_ulp)),
        .g = 0,
        .div_ulp = div_ulp,
        .unit = acc.unit};
  const Enclosure n = count(r.n, acc), share = quotient({1, 0}, n);
  r.g = rule(Rule::merge_rounding, gamma_n(2 * div_ulp + 3 + (n.error > 0 ? 2 : 0), acc.unit));
  if (may_underflow(share, acc, gamma_n(2 * div_ulp, acc.unit)))
    r.g += rule(Rule::reciprocal_underflow, r.n * (1 + 2 * acc.unit) * underflow_of(acc, div_ulp));
  r.magnitudes.reserve(x.size());
  const double of_one = rule(Rule::welford_division, gamma_n(2 * div_ulp + 1, acc.unit));
  double least = kInfinity, largest = -kInfinity;
  for (const double each : x) {
    r.magnitudes.push_back(std::fabs(each));
    least = std::min(least, each);
    largest = std::max(largest, each);
    r.square_sum += each * each;
    // The mean of one term is held in acc, and is the term over 1.
    const double held = held_error(each, acc), magnitude = std::fabs(each);
    const double alone =
        div_ulp > 0.5 ? of_one * magnitude + (has_finer_bits(each, acc) ? acc.tiny : 0) : held;
    r.constant = std::max(r.constant, read(each, acc).error + alone);
    r.of_square += alone * magnitude;
  }
  std::sort(r.magnitudes.begin(), r.magnitudes.end(), std::greater<>());
  r.range = largest - least;
  if (order == Order::lanes && static_cast<double>(order.count) > r.n)
    return over_trees(r, std::ceil(std::log2(static_cast<double>(order.count))), true);
  if (order == Order::depth) return over_trees(r, static_cast<double>(order.count), true);
  const MergedErrors all = over_trees(r, order.height(r.n), false);
  if (order.is_shallow() || r.n >= kBlockTerms) return all;
  const MergedErrors block = over_trees(r, kBlockLevels, true);
  return {std::max(all.mean, block.mean), std::max(all.squares, block.squares)};
}

}  // namespace assay
