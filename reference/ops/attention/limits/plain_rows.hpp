// Rows of one key after the other, and what kernels do to them.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "reference/ops/attention/limits/plain_kernel.hpp"

namespace assay::plain {

inline constexpr double kUlp = 0x1p-23;
inline constexpr double kInside =
    0.999;  // of a declared error: what a kernel's own rounding to f32 leaves of it

using Key = std::pair<float, float>;  // logit and value
inline Row row_of(std::int64_t n, const std::function<Key(std::int64_t)>& key) {
  Row r;
  r.q = {1}, r.kv = "f32";
  for (std::int64_t j = 0; j < n; ++j) {
    const auto [x, v] = key(j);
    r.k.push_back(x), r.v.push_back(v);
  }
  return r;
}
inline Row gaussian(std::int64_t n, double spread = 1, double drift = 0) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  return row_of(n, [&](std::int64_t j) {
    return Key{static_cast<float>(spread * normal(random) + drift * static_cast<double>(j)),
               static_cast<float>(1 + 0.1 * normal(random))};
  });
}
inline Row with_sink(Row r, float sink) {
  r.sinks = true, r.sink = sink;
  return r;
}
inline Row with_window(Row r, std::int64_t window) {
  r.window = window;
  return r;
}
template <typename F>
Choice with(const F& change) {
  Choice c;
  change(c);
  return c;
}

// exp with errors of its own, exact at 0 as the contract has it.
inline std::function<float(float)> exp_off(const std::function<double(float)>& ulps) {
  return [=](float t) {
    const double real = std::exp(static_cast<double>(t));
    return t == 0 ? 1.0F : static_cast<float>(real * (1 + kInside * ulps(t) * kUlp));
  };
}
inline std::function<float(float)> exp_over(double ulps) {
  return exp_off([=](float) { return ulps; });
}

}  // namespace assay::plain
