// Runs a plan: several jobs side by side. What a case does ends that case alone; what it needs is known
// before it is tried.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "harness/backends.hpp"
#include "harness/judge.hpp"
#include "harness/plan.hpp"
#include "harness/result.hpp"

namespace assay {

struct RunSettings {
  int jobs = 1;
  double memory_bytes = 0;  // of inputs, reference and tensors of all jobs together; 0: bytes_available()
  JudgeOptions judge = {};
  WorkerSettings workers = {};
  std::map<std::size_t, CaseResult> known =
      {};  // results that are there already, by the case's place in the plan
  // Workers that are open already, for the first job: a backend's libraries take seconds to load. They stay
  // their owner's, who has made no call with them, or says so (Workers::asked()). Where opening them took
  // kLongOpening or longer, the other jobs begin when the first has judged for as long: a run that is over by
  // then loads nothing twice, and any other takes at most twice as long as it has to.
  Workers* opened = nullptr;
  std::vector<std::size_t> order = {};  // in which the plan's groups are begun; empty: as they stand
  std::function<bool()> stopped = [] { return false; };  // asked before each case
  // Whether a verdict needs no repro of its own: it is green, or a list explains it.
  std::function<bool(const Case&, const Verdict&)> explained = [](const Case&, const Verdict& v) {
    return v.green();
  };
};

// Both are called by one thread at a time, and once per case.
struct RunEvents {
  // As soon as the case is judged; not for those that were known.
  std::function<void(std::size_t place, CaseResult&)> finished = [](std::size_t, CaseResult&) {};
  // In the plan's order; of a run that was stopped, those that were finished.
  std::function<void(CaseResult&)> in_order = [](CaseResult&) {};
};

// Returns whether every case was finished: false when it was stopped.
bool run_plan(const Plan& plan, const std::vector<BackendInfo>& known, const RunSettings& settings,
              const RunEvents& events);

}  // namespace assay
