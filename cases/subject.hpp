// A backend's kernels as properties ask them: called and judged as `assay run` does, with inputs that may be
// a property's own.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases/lists.hpp"
#include "harness/call.hpp"
#include "harness/judge.hpp"
#include "harness/reach.hpp"

namespace assay::properties {

// A law that does not hold, and where.
struct Broken {
  std::string why;
  std::string line;  // of the case that shows it
};
using Verdict = std::optional<Broken>;

// What a backend does not take cannot be asked of it.
struct NotTaken {
  std::string why;
};

inline Case a_case(const std::string& line) { return expand(parse_case(line)).at(0); }

class Subject {
 public:
  Subject(std::string backend, std::vector<BackendInfo> known, WorkerSettings settings = {},
          JudgeOptions options = {})
      : backend_(std::move(backend)),
        known_(std::move(known)),
        workers_(known_, std::move(settings)),
        options_(std::move(options)),
        reach_(backend_, workers_) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const std::string& backend() const { return backend_; }
  const std::vector<BackendInfo>& known() const { return known_; }
  Workers& workers() { return workers_; }
  Reach& reach() { return reach_; }
  const JudgeOptions& options() const { return options_; }

  // A new process: nothing of earlier calls is left.
  void restart() { workers_.of(backend_).worker->restart(); }

  RunResult call(const Case& c, const Inputs& inputs) {
    last_line = c.line();
    RunRequest request;
    request.call = make_call(c, inputs);
    request.timeout = options_.timeout;
    return workers_.of(backend_).worker->run(request);
  }
  // Value and limit of each output under the contract that the backend declares for this call. Throws
  // std::runtime_error with its reason when it declares none.
  std::vector<Truth> truths(const Case& c, const Inputs& inputs) {
    const auto declared = workers_.of(backend_).worker->declare(make_call(c, inputs), options_.timeout);
    if (declared.status != RunStatus::done) throw std::runtime_error(declared.reason);
    const Contract contract = Contract::parse(declared.declaration.contract, c.op->contract);
    return c.op->truth(c.attributes, inputs.set, contract);
  }

  struct Judged {
    CaseResult result;
    TensorSet outputs;  // empty when the run ended early
  };
  // Throws NotTaken where the backend refuses the call in its declaration.
  Judged judged(Case c, const Inputs& inputs) {
    last_line = c.line();
    c.backend = backend_;
    Judged j;
    JudgeOptions options = options_;
    options.observe = [&](const RunResult& run) {
      if (run.status == RunStatus::done) j.outputs = output_tensors(inputs, run.outputs);
    };
    TruthCache truths;
    j.result = Judge{inputs, truths, workers_, std::move(options)}.judge(c);
    if (j.result.verdict.status == Status::unsupported) throw NotTaken{j.result.verdict.summary};
    return j;
  }
  // As `assay run` would judge the line.
  CaseResult judge(Case c) {
    last_line = c.line();
    c.backend = backend_;
    return judge_alone(c, input_lists(), workers_, options_);
  }
  std::string last_line;  // of the last call

 private:
  std::string backend_;
  std::vector<BackendInfo> known_;
  Workers workers_;
  JudgeOptions options_;
  Reach reach_;
};

// What a verdict other than a pass says. Inputs that could not have shown anything accuse nobody.
inline Verdict accused(const CaseResult& r) {
  if (r.verdict.green() || r.verdict.status == Status::distrust) return std::nullopt;
  return Broken{fmt::format("{}: {}", to_string(r.verdict.status), r.verdict.summary), r.c.line()};
}

template <typename T>
std::span<T> elements(TensorSet& set, const std::string& tensor) {
  auto& bytes = set.at(tensor).planes.front().bytes;
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace assay::properties
