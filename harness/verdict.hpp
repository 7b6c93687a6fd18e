// Verdicts: what was found about one case. One function decides, in positive logic: ok = error <= limit.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "reference/ops/op.hpp"

namespace assay {

enum class Status : std::uint8_t {
  pass,
  wrong,             // the proven bound of the declared contract is violated
  fallback,          // the numbers are within the bound, the path is not the one declared
  unwritten,         // an output element still holds its poison
  overrun,           // a byte outside the elements was changed
  leak,              // the outputs depend on bytes that are not the kernel's to read
  input_changed,     // an input was written to
  nondeterministic,  // two runs on the same bytes differ, though the backend promises that they do not
  crash,             // a signal ended the worker
  hang,              // the time limit passed
  failed,            // the backend itself reports a failure
  distrust,          // an all-zero output would have passed: these inputs show nothing
  missed,            // a corruption that moves the outputs beyond their limits went unnoticed
  unsupported,       // the backend says that it cannot
};
inline constexpr std::array<std::string_view, 14> kStatusNames = {
    "pass",  "wrong", "fallback", "unwritten", "overrun", "leak",       "input_changed", "nondeterministic",
    "crash", "hang",  "failed",   "distrust",  "missed",  "unsupported"};
static_assert(kStatusNames[static_cast<std::size_t>(Status::unsupported)] == "unsupported");
constexpr std::string_view to_string(Status s) { return kStatusNames[static_cast<std::size_t>(s)]; }

// The comparison of one output with its truth.
struct Comparison {
  bool ok = false;  // every element within its limit, and at least one element
  std::size_t elements = 0;
  std::size_t bad = 0;
  std::size_t worst = 0;   // index of the element with the largest error / limit (NaN counts as infinite)
  double worst_ratio = 0;  // its error / limit; what a pass has left is 1 - worst_ratio
  bool zeros_would_pass = false;  // then the inputs could not have shown anything
  bool unclaimed = false;         // every limit is infinite
};

// got[i]: the output's elements as exact real numbers. Per element:
//   truth NaN -> got must be NaN; truth +-Inf -> got must be it; otherwise ok = |got - value| <= limit, which
//   a NaN fails.
Comparison compare(const Truth& truth, std::span<const double> got);

// "at out[0,3,17,64] 37 of 131072 bad ... got 0x1406 1.0262e-3 want 0x1402 ... error 4 ulp(f16) limit ...":
// several lines.
std::string describe(const Truth& truth, const Comparison& comparison, std::span<const double> got,
                     const TensorSpec& output);

struct Verdict {
  Status status = Status::failed;
  std::string summary;  // one line
  std::string detail;   // several lines, without the repro
  double worst_ratio = 0;
  std::size_t elements = 0;
  std::size_t bad = 0;
  bool expected = false;  // a verdict other than pass that the list of expectations explains
  std::string reason;     // its explanation

  bool green() const { return status == Status::pass || expected; }
};

}  // namespace assay
