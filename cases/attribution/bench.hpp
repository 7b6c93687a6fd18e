// Asks a kernel questions: the failing case with some of its data or attributes changed, one run each.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge.hpp"

namespace assay::attribution {

struct Answer {
  bool ran = false;  // the backend took the call: the rest is set
  RunStatus status = RunStatus::failed;
  bool bad = false;         // it ended early, or an element lies beyond its limit
  double worst = 0;         // error / limit
  bool not_finite = false;  // an element is NaN or infinite where the truth is finite
  std::vector<TensorSpec> tensors;
  TensorSet set;
  std::vector<Truth> truths;
  std::vector<std::vector<double>> got;  // by output
  Attributes attributes;
  std::optional<Contract> contract;  // what the kernel declared of this call
};

// A tensor's numbers: its name, shape and elements, to be overwritten. FullEdit: of which case, beside which
// bytes.
using Edit = std::function<void(const TensorSpec&, std::vector<float>&)>;
using FullEdit = std::function<void(const Case&, const TensorSet&, const TensorSpec&, std::vector<float>&)>;
using Change = std::pair<std::string, std::string>;  // key and value

class Bench {
 public:
  Bench(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options);

  // The case as it is, judged by two runs as always.
  const CaseResult& first() const { return first_; }
  const Answer& original() const { return original_; }
  const Case& the_case() const { return c_; }
  Contract contract() const;
  int runs() const { return runs_; }
  // The original and all that was asked, in this order.
  const std::vector<Answer>& answers() const { return answers_; }

  // The case with attributes changed and then its data. Keys of Change: attributes, or "fill". What cannot be
  // asked has not run. Where an attribute changes, data keep their numbers as far as shapes allow, or are
  // filled anew.
  Answer ask(const std::vector<Change>& changes, const Edit& edit);
  Answer ask(const Edit& edit) { return ask(std::vector<Change>{}, edit); }
  Answer ask(const std::vector<Change>& changes, const FullEdit& edit);
  // What the kernel declares of the case with these changes; nothing where it does not take it. No run.
  std::optional<Contract> contract_of(const std::vector<Change>& changes);

 private:
  Case changed(const std::vector<Change>& changes) const;
  Answer asked(const std::vector<Change>& changes, const FullEdit& edit);

  Case c_;
  const InputLists& lists_;
  Workers& workers_;
  JudgeOptions options_;
  Inputs inputs_;
  CaseResult first_;
  Answer original_;
  std::vector<Answer> answers_;
  int runs_ = 0;
};

}  // namespace assay::attribution
