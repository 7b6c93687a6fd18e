// Verdicts: what was found about one case. One function decides, in positive logic: ok = error <= limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "reference/ops/op.hpp"
#include "reference/ops/sharpness.hpp"

namespace assay {

enum class Status : std::uint8_t {
  pass,
  wrong,
  fallback,
  unwritten,
  overrun,
  leak,
  input_changed,
  nondeterministic,
  crash,
  hang,
  failed,
  refused,
  distrust,
  blind,
  suspect,
  unwitnessed,
  missed,
  law,
  slower,
  too_big,
  impossible,
  unsupported,
};
// What a person reads of each: `assay list verdicts`, and the README's table, which a test compares with it.
struct StatusRow {
  Status status;
  std::string_view name, meaning, what_to_do;
};
inline constexpr StatusRow kStatuses[] = {
    {Status::pass, "pass", "every output element is within the proven limit, by the declared kernel",
     "nothing"},
    {Status::wrong, "wrong", "an element is beyond the limit that the declared arithmetic allows",
     "read got, want and limit; correct the kernel, or declare what it really does"},
    {Status::fallback, "fallback", "another kernel ran than the one declared",
     "see which one under `what`; correct the dispatch, or the declared path"},
    {Status::unwritten, "unwritten", "an output element was never written",
     "look for a dropped tail: a grid, tile or loop bound"},
    {Status::overrun, "overrun", "a byte outside the tensors' elements was written",
     "look for a stride taken as dense, or a tile without a bound"},
    {Status::leak, "leak", "the outputs depend on bytes that the kernel has no business to read",
     "look for a read past the end, a wrong page, or uninitialised workspace"},
    {Status::input_changed, "input_changed", "an input was written to",
     "the kernel works in place; it must not"},
    {Status::nondeterministic, "nondeterministic", "two runs on the same bytes differ, against the promise",
     "look for atomics and races; or declare deterministic=no"},
    {Status::crash, "crash", "a signal ended the worker process", "repeat the repro line under a debugger"},
    {Status::hang, "hang", "the time limit passed", "look for a lost barrier; or raise --timeout"},
    {Status::failed, "failed", "the backend itself reported a failure, or a contract that cannot be read",
     "read its reason under `what`"},
    {Status::refused, "refused", "the backend declared this call, and then would not run it",
     "refuse it in declare(), or run it"},
    {Status::distrust, "distrust", "an all-zero output would have passed: these inputs show nothing",
     "choose another fill or shape (`assay explain` says what a case shows)"},
    {Status::blind, "blind", "with --strict: an error of 10 % would go unseen in half of the elements",
     "declare the order, depth or unit of the sums; `assay explain` says which step it is"},
    {Status::suspect, "suspect",
     "with --strict: within the proof, and beyond what rounding errors of either sign add up to",
     "look for a sum in fewer bits than declared; or declare the order of the sums"},
    {Status::unwitnessed, "unwitnessed",
     "with --strict: nobody saw the declared kernel, and no symbol has its name: the backend's word alone",
     "keep the symbols (no strip), give the kernel an entry of that name, or name a witness"},
    {Status::missed, "missed", "a corruption that must move the outputs went unnoticed",
     "the kernel does not read what was corrupted: look for a stale copy"},
    {Status::law, "law",
     "`assay laws`: two calls that must agree do not: against a promise, or beyond both limits",
     "see the two case lines: look for an order of summation that depends on the batch; or promise less"},
    {Status::slower, "slower",
     "`assay speed`: a call takes longer than its partner by more than is allowed, at 99.9 %",
     "see both paths and times: look for a conversion in front of the kernel, or a kernel that was not "
     "chosen"},
    {Status::too_big, "too_big",
     "the case needs more than this machine, or the limit given, has: it was not run",
     "see what it needs under `what`; choose fewer --jobs or a larger machine"},
    {Status::impossible, "impossible", "no kernel can be asked this: its attributes contradict each other",
     "correct the case line"},
    {Status::unsupported, "unsupported", "the backend says that it cannot run this case",
     "write the gap into cases/suites/expected.list, or implement it"},
};
inline constexpr auto kStatusNames = [] {
  std::array<std::string_view, std::size(kStatuses)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kStatuses[i].name;
  return names;
}();
static_assert([] {
  for (std::size_t i = 0; i < std::size(kStatuses); ++i)
    if (static_cast<std::size_t>(kStatuses[i].status) != i || kStatuses[i].what_to_do.empty()) return false;
  return kStatuses[std::size(kStatuses) - 1].status == Status::unsupported;
}());
constexpr std::string_view to_string(Status s) { return kStatusNames[static_cast<std::size_t>(s)]; }

// How many elements have which error / limit, by octaves: [0] exact, [1] up to 2^-12, [n] in (2^(n-14),
// 2^(n-13)], so that [13] are the last within their limits, [14] the first beyond, and [24] all beyond 2^10,
// NaN among them.
inline constexpr std::size_t kOctaves = 25, kFirstBadOctave = 14;
using ErrorHistogram = std::array<std::size_t, kOctaves>;
// The place of one element.
std::size_t octave_of(bool ok, double ratio);

// An element beyond its limit.
struct BadElement {
  std::string at;  // "y[2,7]"
  double got = 0, want = 0, limit = 0, ratio = 0;
};

// Where an output is wrong. The map lays the output out as a matrix of its last axis against all others, cut
// into tiles of equal size: a digit for each tile, row by row: 0 none bad, 9 all, and between them the share
// of its elements that are.
struct BadElements {
  std::string shape;                                                   // "y of [3,8]"
  std::vector<BadElement> first;                                       // at most kFirstBad, by index
  std::size_t rows = 0, columns = 0, tile_rows = 0, tile_columns = 0;  // of the matrix, and of a tile
  std::string map;                                                     // "" when nothing is bad
};

// The comparison of one output with its truth.
struct Comparison {
  bool ok = false;  // every element within its limit, and at least one element
  std::size_t elements = 0;
  std::size_t bad = 0;
  std::size_t worst = 0;   // index of the element with the largest error / limit (NaN counts as infinite)
  double worst_ratio = 0;  // its error / limit; what a pass has left is 1 - worst_ratio
  bool zeros_would_pass = false;  // then the inputs could not have shown anything
  bool unclaimed = false;         // every limit is infinite
  ErrorHistogram errors = {};
};

// got[i]: the output's elements as exact real numbers. Per element:
//   limit +Inf    nothing is claimed
//   truth NaN     got must be NaN
//   truth +-Inf   got must be it
//   otherwise     ok = |got - value| <= limit, which a NaN fails
Comparison compare(const Truth& truth, std::span<const double> got);

// "at out[0,3,17,64] 37 of 131072 bad ... got 0x1406 1.0262e-3 want 0x1402 ... error 4 ulp(f16) limit ...":
// several lines.
std::string describe(const Truth& truth, const Comparison& comparison, std::span<const double> got,
                     const TensorSpec& output);

// The first bad elements of an output that has some, and the map of all.
BadElements bad_elements(const Truth& truth, std::span<const double> got, const TensorSpec& output);

struct Verdict {
  Status status = Status::failed;
  std::string summary;  // one line
  std::string detail;   // several lines, without the repro
  double worst_ratio = 0;
  std::size_t elements = 0;
  std::size_t bad = 0;
  ErrorHistogram errors = {};  // of all elements judged
  BadElements where;           // of the output that is wrong
  bool expected = false;       // a verdict other than pass that the list of expectations explains
  std::string reason;          // its explanation
  Sharpness seen;              // what the limits could have shown, where the numbers were judged

  std::string unwitnessed;  // why the backend's word alone stands for the declared path; "" otherwise

  // The largest error / limit by the second opinion (reference/ops/second_opinion.hpp); 0 where it was not
  // asked.
  double likely_ratio = 0;

  bool suspect() const { return likely_ratio > 1; }
  // A pass that an error of 10 % in half of the elements would have been too.
  bool blind() const { return elements > 0 && is_blind(seen); }

  bool green() const { return status == Status::pass || expected; }
};

}  // namespace assay
