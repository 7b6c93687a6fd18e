#include "reference/arithmetic/bench_arithmetic.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "reference/arithmetic/fused_gemm.hpp"

namespace assay {

double measure_fused_dots_per_second(std::string_view unit_name, double seconds) {
  constexpr std::int64_t kSide = 128;
  constexpr std::int64_t kDepth = 1024;
  const MatrixUnit& unit = matrix_unit(unit_name);
  const ScalarFormat& format = scalar_format(unit.inputs.substr(0, unit.inputs.find(' ')));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const auto operand = [&] {
    std::vector<float> x(static_cast<std::size_t>(kSide * kDepth));
    for (float& v : x) v = static_cast<float>(round_to(format, normal(random)));
    return x;
  };
  const std::vector<float> ones(
      unit.scale_block > 0 ? static_cast<std::size_t>(kSide * kDepth / unit.scale_block) : 0, 1.0f);
  const std::vector<float> x = operand();
  const std::vector<float> y = operand();
  const PackedOperand a(unit, PackedOperand::Side::a, "", x.data(), kSide, kDepth, kDepth, ones);
  const PackedOperand b(unit, PackedOperand::Side::b, "", y.data(), kSide, kDepth, kDepth, ones);
  std::vector<float> c(static_cast<std::size_t>(kSide * kSide));
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  const double dots =
      static_cast<double>(kSide) * static_cast<double>(kSide) * static_cast<double>(kDepth / unit.group);
  double best = 0;
  const auto begin = Clock::now();
  do {
    std::fill(c.begin(), c.end(), 0.0f);
    const auto start = Clock::now();
    fused_gemm(unit, a, b, c.data(), kSide);
    best = std::max(best, dots / seconds_since(start));
  } while (seconds_since(begin) < seconds);
  return best;
}

}  // namespace assay
