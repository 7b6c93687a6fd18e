// Scalar kernels for the tests of the bounds: sums and dots in one accumulator, in a declared order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/arithmetic/rounding.hpp"

namespace assay {

enum class SumOrder : std::uint8_t {
  sequential,  // s = c; s = s + x_0; s = s + x_1; ...
  tree,   // balanced: neighbours are added pairwise until one is left (an odd last one moves up); then c +
          // that
  lanes,  // lane j sums x_j, x_{j+w}, ... sequentially from its first term; the lanes by `tree`; then c +
          // that
};

struct OrderedSum {
  Precision precision = kPrecisionF32;
  SumOrder order = SumOrder::sequential;
  int lanes = 1;       // order lanes only
  bool fused = false;  // dots: one rounding for x + a * b where a running sum exists (fused multiply-add)
};

inline double add(double x, double y, const Precision& f) { return f.p == 53 ? x + y : round_sum(x, y, f); }
inline double multiply_add(double a, double b, double s, const Precision& f) {
  return f.p == 53 ? std::fma(a, b, s)
                   : round_sum(a * b, s, f);  // a * b of 24-bit operands is exact in double
}

inline double tree(std::vector<double> x, const Precision& f) {
  while (x.size() > 1) {
    const std::size_t pairs = x.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) x[i] = add(x[2 * i], x[2 * i + 1], f);
    if (x.size() % 2 != 0) x[pairs] = x.back();
    x.resize(pairs + x.size() % 2);
  }
  return x.front();
}

inline std::int64_t tree_height(std::int64_t n) {
  std::int64_t height = 0;
  while ((std::int64_t{1} << height) < n) ++height;
  return height;
}

// Number of additions that the longest-travelled term passes through, the final + c included.
inline std::int64_t addition_depth(const OrderedSum& how, std::int64_t n) {
  if (n <= 0) return 0;
  switch (how.order) {
    case SumOrder::sequential:
      return n;
    case SumOrder::tree:
      return tree_height(n) + 1;
    case SumOrder::lanes: {
      const std::int64_t lanes = std::min<std::int64_t>(how.lanes, n);
      return (n + how.lanes - 1) / how.lanes - 1 + tree_height(lanes) + 1;
    }
  }
  return n;
}

// Every order is one walk over terms: x_i for a sum, fl(a_i b_i) or a fused step for a dot.
template <typename Start, typename Step>
double ordered(const OrderedSum& how, std::size_t n, double c, Start start, Step step) {
  if (n == 0) return c;
  const Precision& f = how.precision;
  if (how.order == SumOrder::sequential) {
    for (std::size_t i = 0; i < n; ++i) c = step(c, i);
    return c;
  }
  std::vector<double> partial;
  if (how.order == SumOrder::tree) {
    for (std::size_t i = 0; i < n; ++i) partial.push_back(start(i));
  } else {
    const std::size_t lanes = std::min(static_cast<std::size_t>(how.lanes), n);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      double s = start(lane);
      for (std::size_t i = lane + static_cast<std::size_t>(how.lanes); i < n;
           i += static_cast<std::size_t>(how.lanes))
        s = step(s, i);
      partial.push_back(s);
    }
  }
  return add(c, tree(std::move(partial), f), f);
}

// c + sum x_i; every x_i and c must be representable in how.precision. An empty sum is c.
inline double ordered_sum(const OrderedSum& how, std::span<const double> x, double c = 0) {
  return ordered(
      how, x.size(), c, [&](std::size_t i) { return x[i]; },
      [&](double s, std::size_t i) { return add(s, x[i], how.precision); });
}

// c + sum a_i b_i, operands of at most 24 significant bits and of one length, each product rounded unless
// fused.
inline double ordered_dot(const OrderedSum& how, std::span<const float> a, std::span<const float> b,
                          double c = 0) {
  const Precision& f = how.precision;
  const auto product = [&](std::size_t i) {
    return round_to_precision(static_cast<double>(a[i]) * static_cast<double>(b[i]), f);
  };
  return ordered(how, a.size(), c, product, [&](double s, std::size_t i) {
    return how.fused ? multiply_add(a[i], b[i], s, f) : add(s, product(i), f);
  });
}

}  // namespace assay
