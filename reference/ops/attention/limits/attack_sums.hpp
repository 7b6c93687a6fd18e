// Sums as a kernel that attacks its limit forms them: in any order that the contract leaves open.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/arithmetic/order.hpp"

namespace assay::attack {

using Random = std::mt19937_64;

inline float chosen_sum(std::vector<float> terms, Random& random) {  // any association of any permutation
  if (terms.empty()) return 0;
  switch (random() % 3) {
    case 0:
      std::shuffle(terms.begin(), terms.end(), random);
      break;
    case 1:
      std::sort(terms.begin(), terms.end());
      break;
    default:
      std::sort(terms.begin(), terms.end(), [](float a, float b) { return std::fabs(a) > std::fabs(b); });
  }
  if (random() % 2 == 0) {
    float s = 0;
    for (const float t : terms) s += t;
    return s;
  }
  while (terms.size() > 1) {  // random pairs
    const std::size_t i = random() % (terms.size() - 1);
    terms[i] += terms[i + 1];
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return terms.front();
}

inline float lanes_sum(const std::vector<float>& terms, std::size_t lanes) {
  std::vector<float> partial(lanes, 0.0F);
  for (std::size_t i = 0; i < terms.size(); ++i) partial[i % lanes] += terms[i];
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) partial[i] += partial[i + half];
  return partial.front();
}

// One partial sum of products a_i b_i, in f32 by `order`, or by a unit with its blocks in order or not, and
// then of as few as `least` products each; from c.
inline float product_sum(const Accumulator& how, Order order, std::int64_t least, std::vector<float> a,
                         std::vector<float> b, std::string_view a_format, std::string_view b_format, float c,
                         Random& random) {
  if (how.kind == Accumulator::Kind::unit) {
    const auto group = static_cast<std::size_t>(how.unit->group);
    if (order != Order::sequential) {
      std::vector<std::size_t> at(a.size());
      std::iota(at.begin(), at.end(), 0);
      std::shuffle(at.begin(), at.end(), random);
      std::vector<float> x(a.size()), y(a.size());
      for (std::size_t i = 0; i < at.size(); ++i) x[i] = a[at[i]], y[i] = b[at[i]];
      const auto block = static_cast<std::size_t>(least == 0 ? how.unit->group : least);
      if (block < group && random() % 2 == 0) {
        a.clear(), b.clear();
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (i > 0 && i % block == 0) a.resize(i / block * group), b.resize(i / block * group);
          a.push_back(x[i]), b.push_back(y[i]);
        }
      } else {
        a = std::move(x), b = std::move(y);
      }
    }
    while (a.size() % group != 0) a.push_back(0), b.push_back(0);
    return static_cast<float>(fused_dot(*how.unit, {a, a_format}, {b, b_format}, static_cast<double>(c)));
  }
  std::vector<float> terms;
  for (std::size_t i = 0; i < a.size(); ++i) terms.push_back(a[i] * b[i]);
  if (order == Order::lanes) return lanes_sum(terms, static_cast<std::size_t>(order.count)) + c;
  if (order == Order::sequential) {
    for (std::size_t i = 0; i < terms.size(); ++i) c = std::fma(a[i], b[i], c);
    return c;
  }
  if (random() % 2 == 0) terms.push_back(c), c = 0;
  return chosen_sum(std::move(terms), random) + c;
}

}  // namespace assay::attack
