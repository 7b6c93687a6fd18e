#include "harness/cli/run_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "harness/budget.hpp"
#include "harness/exit_code.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// What is judged: none that would take longer than this as far as the last one says.
constexpr double kMostSeconds = 1;
constexpr std::size_t kMostPoints = 4;  // of an op on a backend
constexpr double kSteepest = 1.5;       // seconds grow by no more than this power of the bytes: a product's

// Of one case: what cases of the same inputs share, and what each has of its own.
struct Seconds {
  double shared = 0, own = 0;
  double sum() const { return shared + own; }
};

struct Kind {
  std::vector<const Case*> cases;                  // by their bytes
  std::vector<std::pair<double, Seconds>> points;  // bytes, and what was measured; ascending
};

Seconds measured(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options) {
  const auto start = Clock::now();
  const Inputs inputs = make_inputs(c, lists);
  const std::chrono::duration<double> made = Clock::now() - start;
  TruthCache truths;
  const CaseResult r = Judge{inputs, truths, workers, options}.judge(c);
  return {made.count() + r.reference_seconds, std::max(0.0, r.total_seconds - r.reference_seconds)};
}

// Between two points linear; beyond the last, where they end, as the last two grow, but linear at least.
double between(const Kind& kind, double bytes, double Seconds::* part) {
  const auto& points = kind.points;
  const double last = points.back().second.*part;
  if (points.size() == 1) return last * std::max(1.0, bytes / points.back().first);
  std::size_t high = 1;
  while (high + 1 < points.size() && points[high].first < bytes) ++high;
  const auto& [x0, s0] = points[high - 1];
  const auto& [x1, s1] = points[high];
  if (bytes <= x1) return std::max(0.0, std::lerp(s0.*part, s1.*part, (bytes - x0) / (x1 - x0)));
  const double steep = s0.*part > 0 && last > 0 ? std::log(last / (s0.*part)) / std::log(x1 / x0) : 1;
  return last * std::pow(bytes / x1, std::clamp(steep, 1.0, kSteepest));
}

std::string seconds_text(double s) {
  return s < 0.9995 ? fmt::format("{:.0f} ms", std::max(1.0, 1000 * s)) : fmt::format("{:.1f} s", s);
}

}  // namespace

int tell_cost(const Plan& plan, int jobs, Workers& workers, const JudgeOptions& options) {
  const auto start = Clock::now();
  std::map<std::pair<std::string, std::string>, Kind> kinds;
  for (const Group& g : plan.groups)
    for (const Case& c : g.cases) kinds[{std::string(c.op->name), c.backend}].cases.push_back(&c);
  std::size_t asked = 0;
  for (auto& [of, kind] : kinds) {
    (void)workers.open(of.second);
    std::ranges::stable_sort(kind.cases, {}, [](const Case* c) { return bytes_needed(*c); });
    (void)measured(*kind.cases.front(), plan.lists, workers, options);  // the first call is no other's
    ++asked;
    const Case* next = kind.cases.front();
    while (next != nullptr && kind.points.size() < kMostPoints) {
      const double bytes = bytes_needed(*next);
      const Seconds s = measured(*next, plan.lists, workers, options);
      kind.points.emplace_back(bytes, s);
      ++asked;
      // The heaviest that may be judged, and is heavier by enough to tell something.
      next = nullptr;
      for (auto at = kind.cases.rbegin(); at != kind.cases.rend() && next == nullptr; ++at) {
        const double other = bytes_needed(**at);
        if (other < 1.5 * bytes) break;
        if (s.sum() * std::pow(other / bytes, kSteepest) <= kMostSeconds) next = *at;
      }
    }
  }
  double sum = 0, longest = 0, memory = 0;
  for (const Group& g : plan.groups) {
    double of_group = 0;
    for (const Case& c : g.cases) {
      const Kind& kind = kinds.at({std::string(c.op->name), c.backend});
      const double bytes = bytes_needed(c), shared = between(kind, bytes, &Seconds::shared);
      const double seconds = between(kind, bytes, &Seconds::own) + (&c == &g.cases.front() ? shared : 0);
      fmt::print("{:>8} {:>9}  {}\n", seconds_text(seconds), byte_text(bytes_needed(c)), c.line());
      of_group += seconds;
      memory = std::max(memory, bytes_needed(c));
    }
    sum += of_group;
    longest = std::max(longest, of_group);
  }
  // Jobs take whole groups, and no run is over before its longest one is.
  const double wall =
      std::max(longest, sum / std::min<double>(jobs, static_cast<double>(plan.groups.size())));
  fmt::print(
      "{} case{}: {} of work, {} with {} job{}; at most {} of memory in a case; from {} judged in "
      "{}\n",
      plan.cases, plan.cases == 1 ? "" : "s", seconds_text(sum), seconds_text(wall), jobs,
      jobs == 1 ? "" : "s", byte_text(memory), asked,
      seconds_text(std::chrono::duration<double>(Clock::now() - start).count()));
  return kGreen;
}

}  // namespace assay
