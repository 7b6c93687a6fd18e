#include "reference/ops/attention/limits/bounds_figures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_test_kernels.hpp"
#include "reference/ops/attention/test_fills.hpp"

namespace assay {
namespace {

struct Sharpness {
  double median = 0;
  double outside = 0;
};

Sharpness sharpness(std::string_view name, AttentionLevel level) {
  Sharpness r;
  std::vector<double> ratios;
  for (const TestKernel& kernel : test_kernels()) {
    if (kernel.name != name) continue;
    for (const std::uint64_t seed : {5u, 6u, 7u}) {
      const AttentionFill f = attention_fill(Design::gaussian, 4096, 128, 128, std::string(kernel.q),
                                             std::string(kernel.k), std::string(kernel.v), seed);
      std::vector<float> out(128);
      AttentionEmulator(kernel.how, f.kv()).run(f.row(), out);
      const RowBounds bounds = AttentionBounds(kernel.how, f.kv()).row(f.row(), level);
      for (std::size_t c = 0; c < out.size(); ++c) {
        const double error = std::fabs(static_cast<double>(out[c]) - bounds.centre[c]);
        r.outside += !(error <= bounds.limit[c]);
        ratios.push_back(error == 0 ? std::numeric_limits<double>::infinity() : bounds.limit[c] / error);
      }
    }
  }
  std::nth_element(ratios.begin(), ratios.begin() + std::ssize(ratios) / 2, ratios.end());
  r.median = ratios[ratios.size() / 2];
  return r;
}

}  // namespace

std::vector<AttentionBoundFigure> attention_bound_figures() {
  double outside = 0;
  const auto worst = [&](AttentionLevel level, std::initializer_list<std::string_view> names) {
    double median = 0;
    for (const std::string_view name : names) {
      const Sharpness s = sharpness(name, level);
      median = std::max(median, s.median);
      outside += s.outside;
    }
    return median;
  };
  std::vector<AttentionBoundFigure> r;
  r.push_back({"attention_detap_bound_over_actual_bf16", worst(AttentionLevel::detap, {"hopper_bf16"}), 100});
  r.push_back(
      {"attention_ca_bound_over_actual_16bit", worst(AttentionLevel::ca, {"hopper_f16", "hopper_bf16"}), 10});
  r.push_back({"attention_emu_bound_over_actual_fp8",
               worst(AttentionLevel::emu,
                     {"hopper_fp8", "hopper_fp8_two_level", "hopper_fp8_promote32", "hopper_fp8_mma_sync"}),
               6});
  r.push_back({"attention_bound_violations", outside, 0});
  return r;
}

}  // namespace assay
