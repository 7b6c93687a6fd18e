// What is left to a driver where schedules are declared whole: replay.hpp.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/vulkan/device_testing.hpp"

namespace assay_vulkan {
namespace {

class Driver : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    on = device(why);
    if (on == nullptr) GTEST_SKIP() << why;
  }
  Device* on = nullptr;
};

TEST_F(Driver, products_and_sums_are_rounded_apart_and_subnormals_kept_where_schedules_are_declared) {
  const std::map<std::string, Different> all = {
      {"a b + a", different(*on, 12,
                            [](float a, float b) {
                              const volatile float product = a * b;
                              return product + a;
                            })},
      {"a b", different(*on, 14, [](float a, float b) { return a * b; })},
      {"a / b", different(*on, 4, [](float a, float b) { return a / b; })}};
  for (const auto& [what, d] : all) {
    std::printf("%s: %zu of 200000 differ, %zu of them with subnormal numbers\n", what.c_str(), d.all,
                d.subnormal);
    if (!on->can().lane_fold.empty()) {
      EXPECT_EQ(d.first, "") << what;
    }
  }
  if (on->can().lane_fold.empty()) GTEST_SKIP() << on->can().name << " declares no schedules";
}
// e^x by the steps of exact.glsl, in this machine's f64.
double series(double x) {
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double s = 2.75573192239858906526e-6;
  for (const double c :
       {2.48015873015873015873e-5, 1.98412698412698412698e-4, 1.38888888888888888889e-3,
        8.33333333333333333333e-3, 4.16666666666666666667e-2, 1.66666666666666666667e-1, 0.5, 1.0, 1.0})
    s = s * r + c;
  return std::ldexp(s, static_cast<int>(n));
}
TEST_F(Driver, the_exponential_and_tanh_are_the_steps_of_their_series) {
  constexpr std::uint32_t kExp = 0, kTanh = 2, kStride = 997;
  Bits x = floats(-0x1p-27F, -104.0F, kStride);
  const Bits up = floats(0x1p-13F, 20.0F, kStride);
  x.insert(x.end(), up.begin(), up.end());
  const Bits e = probe(*on, kExp, x, x), t = probe(*on, kTanh, up, up);
  std::size_t of_exp = 0, of_tanh = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    of_exp += value(e[i]) != static_cast<float>(series(double{value(x[i])})) ? 1U : 0U;
  for (std::size_t i = 0; i < up.size(); ++i) {
    const double twice = series(2.0 * double{value(up[i])});
    of_tanh += value(t[i]) != static_cast<float>((twice - 1.0) / (twice + 1.0)) ? 1U : 0U;
  }
  std::printf("exp: %zu of %zu differ; tanh: %zu of %zu\n", of_exp, x.size(), of_tanh, up.size());
  if (on->can().lane_fold.empty()) GTEST_SKIP() << on->can().name << " declares no schedules";
  EXPECT_EQ(of_exp, 0U);
  EXPECT_EQ(of_tanh, 0U);
}

// The sum of a subgroup's lanes in each order that a schedule has a word for.
std::map<std::string, float> folds(std::vector<float> x) {
  std::map<std::string, float> sums;
  const std::size_t lanes = x.size();
  sums["sequential"] = std::accumulate(x.begin() + 1, x.end(), x.front());
  sums["reverse"] = std::accumulate(x.rbegin() + 1, x.rend(), x.back());
  std::vector<float> y = x;
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) y[l] += y[l + half];
  sums["halving"] = y.front();
  for (std::size_t by = 1; by < lanes; by *= 2)
    for (std::size_t l = 0; l + by < lanes; l += 2 * by) x[l] += x[l + by];
  sums["adjacent"] = x.front();
  return sums;
}
TEST_F(Driver, a_subgroup_adds_its_lanes_in_the_order_that_is_declared) {
  std::mt19937 random(5);
  Bits a(std::size_t{512} * on->subgroup());
  for (std::uint32_t& x : a) x = 0x3F000000U + static_cast<std::uint32_t>(random()) % 0x1000000U;
  const Bits got = probe(*on, 13, a, a);
  std::map<std::string, std::size_t> equal;
  for (std::size_t first = 0; first < a.size(); first += on->subgroup()) {
    std::vector<float> x;
    for (std::size_t l = first; l < first + on->subgroup(); ++l) x.push_back(value(a[l]));
    for (const auto& [fold, sum] : folds(x))
      equal[fold] += std::bit_cast<std::uint32_t>(sum) == got[first] ? 1U : 0U;
  }
  for (const auto& [fold, count] : equal) std::printf("%s: %zu of 512\n", fold.c_str(), count);
  if (on->can().lane_fold.empty()) GTEST_SKIP() << on->can().name << " declares no schedules";
  EXPECT_EQ(equal[on->can().lane_fold], 512U);
}

}  // namespace
}  // namespace assay_vulkan
