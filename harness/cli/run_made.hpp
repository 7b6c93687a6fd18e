// The suite that `assay run` makes for a backend, where no case is named.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cli/run_arguments.hpp"
#include "harness/judge.hpp"
#include "harness/suite_text.hpp"

namespace assay {

inline constexpr double kStrangersBudget = 20;  // seconds

// Without a word, kernels that are not of this project get the suite that is made for them: plug-ins that are
// named by a path, and the adapters that ask for it.
bool are_strangers(const std::vector<std::string>& backends, const std::vector<BackendInfo>& known);
std::vector<std::string> judged_backends(const RunArguments& a, const std::vector<BackendInfo>& known);

// How many cases are made for a budget: more than so many jobs judge in it, and no suite takes longer to make
// than to be judged.
std::size_t cases_within(double budget_seconds, int jobs);

// What a case that was made for a backend may come to without being anybody's defect.
inline constexpr std::string_view kOfMade =
    "too_big * # made for this backend: this machine has too little memory\n";

// What is run, and what of it proved to be no part of a suite once its truth was there: inputs that show
// nothing under the contract that the backend declares, and those that the reference has no truth of. What
// else was found with them stays.
struct MadeSuite {
  std::vector<SuiteLine> lines;

  static bool leaves_out(Status s) { return s == Status::distrust || s == Status::impossible; }
};

// The lines of the words, and those that are made for each backend where a word asks for them.
MadeSuite suite_of(const RunArguments& a, bool generated, const std::vector<BackendInfo>& known,
                   const InputLists& lists, Workers& workers);

}  // namespace assay
