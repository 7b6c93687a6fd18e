// A suite for one backend, made from what it says it takes: lists of factors
// (cases/suites/strangers.factors), covered pairwise. A line of such a list looks like a case line, and its
// sets are combined in pairs instead of multiplied:
//
//   op key=value,value ...    the first value of each key is the plainest
//   key=all                   a format: all formats; fill, fault: all that the op can have; variant: all of
//                             the backend
//   key=@key                  those of the models that are served (harness/model_shapes.hpp)
//   key=4..900                one integer between the two, drawn by the seed, small ones as often as large
//                             ones
//
// Whatever the backend does not take, and whatever is impossible in itself, is in no case.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "harness/judge.hpp"
#include "harness/suite_text.hpp"

namespace assay {

inline constexpr std::string_view kStrangers = "strangers";  // as a suite is named

struct StrangerSuite {
  std::string backend;
  std::uint64_t seed = 1;
  // A suite of fewer cases is the beginning of one of more.
  std::size_t most = std::numeric_limits<std::size_t>::max();
};

struct GeneratedSuite {
  // One case each, with its backend. In rounds: a few of each line of the list, those first that cover most
  // pairs; within a round the cheap ones first.
  std::vector<SuiteLine> lines;
  std::vector<std::string> ops;        // that the backend takes
  std::size_t asked = 0, waits = 0;    // declarations, and how often answers were waited for
  std::vector<std::string> not_taken;  // lines of the list that nothing was found for: "list:12: softmax"
};

// The list that comes with assay, and what it is for: its first line.
std::vector<SuiteLine> stranger_factors();
std::string stranger_purpose();

// Throws InputError for a line that cannot be read, std::runtime_error when the backend cannot run here.
GeneratedSuite generate_suite(const std::vector<SuiteLine>& factors, const StrangerSuite& wanted,
                              const InputLists& lists, Workers& workers);

// The same lists of factors, each value alone beside the plainest of the others: one case for every format
// and variant.
GeneratedSuite generate_singles(const std::vector<SuiteLine>& factors, const std::string& backend,
                                std::uint64_t seed, const InputLists& lists, Workers& workers);

}  // namespace assay
