#include <algorithm>
#include <cmath>

#include "cases/studies/cascade/engine.hpp"

namespace assay::scenarios {

Ranges calibrate(const Model& model) {
  // One stretch of tokens per page, in the reference's arithmetic and without quantising; what K and V reach
  // is read back from the stages.
  Settings s;
  s.policy = Policy::none;
  s.monitors = false;
  s.record = true;
  std::vector<Request> requests;
  for (int t = 0; t < model.shape.vocabulary; t += s.page) {
    Request r{"calibration", {}, 1, true, 0};
    for (int i = 0; i < s.page; ++i)
      if (t + i != kZeroToken) r.prompt.push_back(t + i);
    requests.push_back(std::move(r));
  }
  const auto math = reference_arithmetic();
  const Run run = run_engine(model, requests, s, *math);
  const int kv = model.shape.kv(), d = model.shape.d;
  Ranges ranges;
  ranges.k.assign(static_cast<std::size_t>(model.shape.layers),
                  std::vector<float>(static_cast<std::size_t>(model.shape.heads), 0));
  ranges.v = ranges.k;
  for (const auto& stage : run.stages) {
    if (stage.stage != "qkv") continue;
    for (std::size_t i = 0; i < stage.values.size(); ++i) {
      const int column = static_cast<int>(i % static_cast<std::size_t>(3 * kv));
      if (column < kv) continue;
      float& top =
          (column < 2 * kv
               ? ranges.k
               : ranges.v)[static_cast<std::size_t>(stage.layer)][static_cast<std::size_t>(column % kv / d)];
      top = std::max(top, 1.1F * std::fabs(stage.values[i]));
    }
  }
  return ranges;
}

}  // namespace assay::scenarios
