#include "reference/real/bench_real.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "reference/real/dot2.hpp"
#include "reference/real/double_double_functions.hpp"
#include "reference/real/exp_array.hpp"
#include "reference/real/mp.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/real/bench_real.cpp"
#include "hwy/aligned_allocator.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "reference/real/fma-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

/// The yardstick: a dot in double as a fast kernel writes it, rounding and all.
double plain_dot(const double* x, const double* y, size_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = fused_mul_add(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i), s0);
    s1 = fused_mul_add(d, hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes), s1);
    s2 = fused_mul_add(d, hn::LoadU(d, x + i + 2 * lanes), hn::LoadU(d, y + i + 2 * lanes), s2);
    s3 = fused_mul_add(d, hn::LoadU(d, x + i + 3 * lanes), hn::LoadU(d, y + i + 3 * lanes), s3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(plain_dot);

namespace {

__extension__ using Binary128 = __float128;
constexpr std::size_t kTerms = 4096;

/// A path of the benchmark: does `items` items a call and returns a number, so that it cannot be optimised
/// away.
struct Path {
  double items;
  int calls;  // per turn, so that turns are of similar length
  std::function<double()> run;
  double best_seconds_per_item = 1e300;
};

/// Turns of all paths until the time is over; the best turn of each counts (the least disturbed one).
void take_turns(std::span<Path> paths, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  volatile double sink = 0;
  do {
    for (Path& path : paths) {
      const auto start = Clock::now();
      double sum = 0;
      for (int i = 0; i < path.calls; ++i) sum += path.run();
      sink = sink + sum;
      const std::chrono::duration<double> took = Clock::now() - start;
      path.best_seconds_per_item =
          std::min(path.best_seconds_per_item, took.count() / (path.items * path.calls));
    }
  } while (Clock::now() < end);
}

}  // namespace

DotSpeeds measure_dot_speeds(double seconds) {
  std::mt19937_64 random(1);
  // Aligned, as an engine's buffers are: a vector load across cache lines costs two.
  const auto x = hwy::AllocateAligned<double>(kTerms), y = hwy::AllocateAligned<double>(kTerms);
  const std::span<const double> x_row(x.get(), kTerms), y_row(y.get(), kTerms);
  std::vector<mp::Real113> u(kTerms), v(kTerms);
  for (std::size_t i = 0; i < kTerms; ++i) {
    u[i] = x[i] = (static_cast<double>(random() % 458753) - 229376) * 0x1p-9;
    v[i] = y[i] = (static_cast<double>(random() % 458753) - 229376) * 0x1p-9;
  }
  std::array<Path, 4> paths = {
      Path{kTerms, 500, [&] { return HWY_DYNAMIC_DISPATCH(plain_dot)(x.get(), y.get(), kTerms); }},
      Path{kTerms, 500, [&] { return dot2(x_row, y_row).value; }},
      Path{kTerms, 4,
           [&] {
             Binary128 sum = 0;
             for (std::size_t i = 0; i < kTerms; ++i) sum += static_cast<Binary128>(x[i]) * y[i];
             return static_cast<double>(sum);
           }},
      Path{kTerms, 2, [&] {
             mp::Real113 sum = 0;
             for (std::size_t i = 0; i < kTerms; ++i) sum += u[i] * v[i];
             return sum.convert_to<double>();
           }}};
  take_turns(paths, seconds);
  const auto speed = [&](std::size_t i) { return 1e-9 / paths[i].best_seconds_per_item; };
  return {speed(0), speed(1), speed(2), speed(3)};
}

ExpSpeeds measure_exp_speeds(double seconds) {
  std::vector<double> x(kTerms), out(kTerms);
  for (std::size_t i = 0; i < kTerms; ++i) x[i] = -0.01 * static_cast<double>(i);
  constexpr int kFew = 64;
  std::array<Path, 4> paths = {Path{kTerms, 200, [&] { return certified_exp(x, {}, out), out[7]; }},
                               Path{kTerms, 20,
                                    [&] {
                                      double sum = 0;
                                      for (const double t : x) sum += certified_exp(t);
                                      return sum;
                                    }},
                               Path{kFew, 10,
                                    [&] {
                                      double sum = 0;
                                      for (int i = 0; i < kFew; ++i) sum += exp(DoubleDouble(x[i])).lo;
                                      return sum;
                                    }},
                               Path{kFew, 2, [&] {
                                      double sum = 0;
                                      for (int i = 0; i < kFew; ++i) {
                                        sum += exp(mp::Real113(x[i])).convert_to<double>();
                                      }
                                      return sum;
                                    }}};
  take_turns(paths, seconds);
  const auto ns = [&](std::size_t i) { return 1e9 * paths[i].best_seconds_per_item; };
  return {ns(0), ns(1), ns(2), ns(3)};
}

}  // namespace assay
#endif
