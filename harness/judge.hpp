// The judge: one case's kernel run through its worker, and the verdict over what it left.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/backends.hpp"
#include "harness/inputs.hpp"
#include "harness/result.hpp"
#include "harness/worker/worker.hpp"

namespace assay {

struct JudgeOptions {
  std::chrono::milliseconds timeout{10'000};  // of one run of a kernel
  int repeats = 0;                            // further runs on the same bytes, all of which must agree
  bool isolate = false;                       // every run but the first is made in a new process
  bool strict = false;                        // a blind or suspect pass is no pass
  bool first_step = true;                     // under level=replay the first step that differs is looked for
  std::function<void(const RunResult&)> observe = {};  // sees each run's outputs, whatever the verdict
};

// What all workers of a run have in common.
struct WorkerSettings {
  std::chrono::milliseconds open_timeout{60'000};
  int stop_descriptor = -1;        // as WorkerOptions'
  std::optional<Sandbox> sandbox;  // as WorkerOptions'
};

// The workers of one thread, one per backend, started when first needed.
class Workers {
 public:
  explicit Workers(const std::vector<BackendInfo>& known, WorkerSettings settings = {})
      : known_(known), settings_(std::move(settings)) {}
  struct Entry {
    BackendChoice choice;
    std::unique_ptr<Worker> worker;
    std::vector<std::string> calls;  // the cases that the worker's process has been given, oldest first
    int process = 0;                 // which of its processes: Worker::starts()
    bool asked = false;              // that process was asked what `calls` does not tell: see asked()
    double opening_seconds = 0;      // of the first process: its libraries, a device
  };
  Entry& of(const std::string& backend);  // throws InputError when there is no such backend
  // The same, with `calls` emptied if the process that got them is gone.
  Entry& current(const std::string& backend);
  // What the backend says of itself. Throws std::runtime_error with its reason when it cannot run here.
  reply::Opened open(const std::string& backend);
  // The processes that are there have been asked other things than cases (what they take, for a suite): a
  // finding of theirs is made again in a new one.
  void asked();
  // How long it takes to open what is open.
  double opening_seconds() const;

 private:
  const std::vector<BackendInfo>& known_;
  WorkerSettings settings_;
  std::map<std::string, Entry> entries_;
};

// The truth of one set of inputs under each contract that was declared for it. Threads may share it.
class TruthCache {
 public:
  // Computed once per contract; adds the time that this took to *seconds.
  const std::vector<Truth>& of(const Case& c, const Inputs& inputs, const Contract& contract,
                               double* seconds = nullptr);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<Truth>> entries_;
};

// Judges cases that share their inputs (same Case::inputs(); backends and variants differ), and with them the
// truths. It is made of what its owner keeps: those, the workers, and how to run.
struct Judge {
  const Inputs& inputs;
  TruthCache& truths;
  Workers& workers;
  JudgeOptions options = {};

  // Inputs with a fault (reference/inputs/fault.hpp) are run with and without it, and judged by the fault's
  // requirement.
  CaseResult judge(const Case& c) const;
  // What a result of this judge was compared with; it must have a contract.
  const std::vector<Truth>& truths_of(const CaseResult& result) const;

 private:
  CaseResult judge_plain(const Case& c) const;
  void name_first_step(const Case& c, const Contract& contract, CaseResult& r) const;
  void ask_again(const Case& c, const Contract& contract, const RunResult& run, CaseResult& r) const;
};

// One case with inputs and truths of its own, behind the calls of its `after`.
CaseResult judge_alone(const Case& c, const InputLists& lists, Workers& workers, JudgeOptions options = {});

// Outputs that were left, as numbers against their truths: pass, wrong, or distrust. Adds the time that
// decoding them took to *seconds.
Verdict judge_numbers(const Inputs& inputs, const std::vector<Truth>& truths, const TensorSet& outputs,
                      double* seconds = nullptr);
// The same where later outputs may depend on earlier ones as they were stored (Op::truth_given).
Verdict judge_outputs(const Case& c, const Contract& contract, const Inputs& inputs,
                      const std::vector<Truth>& truths, const TensorSet& outputs, double* seconds = nullptr);

}  // namespace assay
