// Runs a plan: inputs, worker, truth, verdict; several jobs side by side, results in the plan's order.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/backends.hpp"
#include "harness/inputs.hpp"
#include "harness/plan.hpp"
#include "harness/result.hpp"
#include "harness/worker/worker.hpp"

namespace assay {

struct RunOptions {
  int jobs = 1;
  std::chrono::milliseconds timeout{10'000};  // of one run of a kernel
  int repeats = 0;                            // further runs on the same bytes, all of which must agree
  std::function<void(const RunResult&)> observe;  // sees each run's outputs, whatever the verdict
};

// The workers of one thread, one per backend, started when first needed.
class Workers {
 public:
  explicit Workers(const std::vector<BackendInfo>& known) : known_(known) {}
  struct Entry {
    BackendChoice choice;
    std::unique_ptr<Worker> worker;
  };
  Entry& of(const std::string& backend);  // throws InputError when there is no such backend

 private:
  const std::vector<BackendInfo>& known_;
  std::map<std::string, Entry> entries_;
};

// The truth of one set of inputs under each contract that was declared for it.
class TruthCache {
 public:
  struct Entry {
    std::vector<Truth> truths;
    double seconds = 0;
  };
  // Computed once per contract; `fresh` tells whether this call did it.
  const Entry& of(const Case& c, const Inputs& inputs, const Contract& contract, bool& fresh);

 private:
  std::map<std::string, Entry> entries_;
};

// The planes of a case's tensors as the worker takes them. `inputs` must outlive the call.
WorkerCall make_call(const Case& c, const Inputs& inputs);

// The worker's outputs, plane after plane, as tensors.
std::map<std::string, Encoded> read_outputs(const Inputs& inputs, const Outputs& outputs);

// A case with a fault (harness/fault.hpp) is run with and without it, and judged by the fault's duty.
CaseResult run_case(const Case& c, const Inputs& inputs, TruthCache& truths, Workers& workers,
                    const RunOptions& options);

// on_result is called once per case, in the plan's order, by one thread at a time.
void run_plan(const Plan& plan, const std::vector<BackendInfo>& known, const RunOptions& options,
              const std::function<void(CaseResult&)>& on_result);

}  // namespace assay
