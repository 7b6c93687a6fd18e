// Which stage of a kernel is wrong. Inputs that isolate stages are put to the kernel, one run each, and what
// it answers is compared with the truth of each: equal logits show the row sum, a one-hot V shows every
// weight, logits of one product leave q.k without roundings, constant logits within a part of a split show
// the merge. A stage is named when the answers leave one; otherwise it is `unknown`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/judge.hpp"

namespace assay::attribution {

struct StageRow {
  std::string_view name, meaning;
};
// The names that an attribution has, and what each stands for.
std::span<const StageRow> stages();

struct Attribution {
  CaseResult first;               // the case as it was given
  std::string stage = "unknown";  // a row of stages(), or unknown
  std::string what;   // scale, sign, index, width, not finite: how it is wrong; "" where that is open
  std::string where;  // "keys 64..95, tiles 2..2", "v columns 32..63", "heads 1..2"; "" where that is open
  std::vector<std::string> support, against;  // evidence
  bool decided = false;                       // by inputs that leave no other stage: hypotheses are not asked
  int runs = 0;                               // of the kernel, the two of the first judgement among them
};

// Throws InputError for a case that cannot be judged. Of one that is green the stage is unknown.
Attribution attribute(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options);

}  // namespace assay::attribution
