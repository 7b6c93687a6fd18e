#include "harness/runner.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

namespace assay {

using Clock = std::chrono::steady_clock;

void run_plan(const Plan& plan, const std::vector<BackendInfo>& known, int jobs, const JudgeOptions& options,
              const std::function<void(CaseResult&)>& on_result) {
  std::atomic<std::size_t> next{0};
  std::mutex delivery;
  std::map<std::size_t, std::vector<CaseResult>> done;  // groups that wait for an earlier one
  std::size_t delivered = 0;

  const auto work = [&] {
    Workers workers(known);
    for (std::size_t g = next++; g < plan.groups.size(); g = next++) {
      const Group& group = plan.groups[g];
      const auto start = Clock::now();
      const Inputs inputs = make_inputs(group.cases.front(), plan.lists);
      const std::chrono::duration<double> made = Clock::now() - start;
      TruthCache truths;
      std::vector<CaseResult> results;
      const Judge judge{inputs, truths, workers, options};
      for (const auto& c : group.cases) results.push_back(judge.judge(c));
      results.front().input_seconds = inputs.fill_seconds;
      results.front().reference_seconds += inputs.encode_seconds;
      results.front().total_seconds += made.count();
      const std::lock_guard lock(delivery);
      done.emplace(g, std::move(results));
      for (auto at = done.find(delivered); at != done.end(); at = done.find(++delivered)) {
        for (auto& r : at->second) on_result(r);
        done.erase(at);
      }
    }
  };

  // An exception of a job (inputs that cannot be made) ends the run, not the process.
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(delivery);
      failure = std::current_exception();
      next = plan.groups.size();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < jobs; ++i) threads.emplace_back(guarded);
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace assay
