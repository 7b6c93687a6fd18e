#include "cases/studies/cascade/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace assay::scenarios {
namespace {

// e4m3fn keeps 3 fraction bits: a stored number in range is off by at most 2^-4 of itself. A token's stored K
// and V further than that from what they would be without quantising, as a part of their norm, were not
// stored in range, or came from a state that had already left the reference.
constexpr double kStored = 0x1p-4;

CascadeDivergence first(const std::string& against, const Run& run, const Run& truth, bool numbers) {
  CascadeDivergence d{against, "", -1, -1, -1, ""};
  for (const auto& got : run.stages) {
    const auto want = std::ranges::find_if(truth.stages, [&](const StageRecord& t) {
      return t.stage == got.stage && t.layer == got.layer && !t.rows.empty() &&
             std::ranges::any_of(t.rows, [&](const Row& r) {
               return r.request == got.rows[0].request && r.position == got.rows[0].position;
             });
    });
    if (want == truth.stages.end()) continue;
    const std::size_t width = got.values.size() / got.rows.size();
    for (std::size_t r = 0; r < got.rows.size(); ++r) {
      const auto row = std::ranges::find_if(want->rows, [&](const Row& x) {
        return x.request == got.rows[r].request && x.position == got.rows[r].position;
      });
      if (row == want->rows.end()) continue;
      const float* a = got.values.data() + r * width;
      const float* b = want->values.data() + static_cast<std::size_t>(row - want->rows.begin()) * width;
      double error = 0, norm = 0;
      bool nan = false;
      for (std::size_t i = 0; i < width; ++i) {
        nan = nan || (std::isnan(a[i]) && !std::isnan(b[i]));
        error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
        norm += static_cast<double>(b[i]) * b[i];
      }
      const bool off =
          nan || (numbers && got.stage == "cache" && !(std::sqrt(error) <= kStored * std::sqrt(norm)));
      if (!off) continue;
      d.stage = got.stage;
      d.layer = got.layer;
      d.token = got.rows[r].position;
      d.request = got.rows[r].request;
      d.what = nan ? fmt::format("NaN where the reference has {:.6g}", b[0])
                   : fmt::format("{:.1f} % of the row's norm, storing in range can do {:.2f} %",
                                 100 * std::sqrt(error / norm), 100 * kStored);
      return d;
    }
  }
  return d;
}

}  // namespace

std::vector<CascadeDivergence> divergences(const Model& model, const std::vector<Request>& requests,
                                           const Settings& settings, const Run& run) {
  std::vector<std::vector<int>> forced;
  for (const auto& a : run.answers) forced.push_back(a.tokens);
  if (std::ranges::any_of(run.answers, [](const Answer& a) { return a.aborted; })) return {};
  const auto math = reference_arithmetic();
  Settings s = settings;
  s.record = true;
  s.monitors = false;
  const Run same = run_engine(model, requests, s, *math, &forced);
  s.policy = Policy::none;
  const Run exact = run_engine(model, requests, s, *math, &forced);
  return {first("the same policy in f64", run, same, false),
          first("no quantisation in f64", run, exact, true)};
}

}  // namespace assay::scenarios
