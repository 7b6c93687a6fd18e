// The laws that a backend promises, held against it in a run: on one case for each op, format and variant
// that it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/laws.hpp"
#include "harness/result.hpp"
#include "harness/suites.hpp"

namespace assay {

// One line for each format, and all its variants where that is asked for, that each of the backends takes.
std::vector<SuiteLine> lines_for_laws(const std::vector<std::string>& backends, std::uint64_t seed,
                                      bool variants, const InputLists& lists, Workers& workers);
// The lines' cases, as `assay run` would plan them.
std::vector<Case> planned_cases(const std::vector<SuiteLine>& lines, const std::vector<std::string>& backends,
                                std::uint64_t seed, const std::vector<BackendInfo>& known,
                                const InputLists& lists, Workers& workers);

// Promised laws, each on one case, of lines_for_laws().
struct PromisesJudged {
  std::size_t checked = 0;  // where the law says something of the case
  std::size_t left = 0;     // not begun
};

// `found` gets each promise that is broken, as the verdict `law`; `stopped` is asked before each law.
PromisesJudged judge_promises(const std::vector<SuiteLine>& lines, const std::string& backend,
                              std::uint64_t seed, std::span<const Law> laws,
                              const std::vector<BackendInfo>& known, const InputLists& lists,
                              Workers& workers, const JudgeOptions& options,
                              const std::function<bool()>& stopped,
                              const std::function<void(CaseResult&)>& found);

}  // namespace assay
