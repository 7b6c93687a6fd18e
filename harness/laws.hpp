// Laws: relations between calls of one kernel that need no reference. A row of a batch alone and among
// others, a prefill in one piece and in two, the same keys on other pages: mathematically the same, and bit
// for bit the same only for a kernel whose order of summation does not look at what else is in the call.
//
//   bitwise        the elements that must agree have the same bits in every call that was made
//   within limits  some differ, each by no more than both limits together: what the declared arithmetic
//                  allows
//   broken         some differ by more: at least one of the two results is wrong
//
// A backend promises a law in its declaration, by its name: promises "batch=bitwise". A promised law that is
// not bitwise, and any law that is broken, is the verdict `law`. Everything else is a fact.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/judge.hpp"
#include "harness/promises.hpp"
#include "harness/slices.hpp"

namespace assay {

struct LawCall {
  Case c;
  Inputs inputs;
};

// The second call of a relation; the first is that of the case itself.
struct Relation {
  LawCall call;
  SharedRanges pieces;               // which of its output elements stand for which of the first call's
  std::vector<LawCall> before = {};  // made in front of it, in the same process
  bool restart = false;              // a new process first
  // The calls do not compute the same: their results are as far apart as the reference says that they are,
  // within both limits. Results that are closer break that as those that are farther do.
  bool parts = false;
};

struct Law {
  std::string_view name;
  std::string_view says;  // one line
  // The relations that a case has: whole numbers, in ascending order. Empty where the law says nothing of the
  // case.
  std::vector<std::int64_t> (*points)(const LawCall&);
  // Throws InputError where the case has no such relation after all.
  Relation (*make)(const LawCall&, std::int64_t point, const InputLists&);
  bool fresh = false;  // the first call is made in a new process
  std::string_view axis =
      {};  // what the points count, where between two of them a change is looked for: "rows"
};

enum class LawOutcome : std::uint8_t { bitwise, within, broken, not_run };
constexpr std::string_view to_string(LawOutcome o) {
  constexpr std::string_view kNames[] = {"bitwise", "within limits", "broken", "not run"};
  return kNames[static_cast<std::size_t>(o)];
}

// A law on one case: what all its relations together came to.
struct LawResult {
  const Law* law = nullptr;
  Case c;
  LawOutcome outcome = LawOutcome::not_run;
  bool promised = false;
  std::size_t relations = 0;         // that were tried
  std::string why;                   // not_run: what came in between
  std::int64_t point = 0;            // the first relation that differs
  std::string second;                // the line of its second call
  std::string difference;            // "out[3,7]: 1.5 (0x3fc00000) and 1.25 (0x3fa00000)"
  std::vector<std::string> changes;  // "between 31 and 32": where results part, of laws with an axis

  // Status::law, or pass.
  bool red() const { return outcome == LawOutcome::broken || (promised && outcome == LawOutcome::within); }
};

// Nothing for a case that the law says nothing of. `only`: one point instead of all.
std::optional<LawResult> check_law(const Law& law, const LawCall& base, Workers& workers,
                                   const InputLists& lists, const JudgeOptions& options,
                                   std::optional<std::int64_t> only = {});

}  // namespace assay
