// The start-up self-test: refuses a build or a thread whose floating point is not what every proof here
// assumes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// One broken assumption. `name` is one of: nan_compare, reassociation, contraction, fma, excess_precision,
/// rounding_mode, denormal_results, denormal_operands, signed_zero, infinity.
struct SelfTestFailure {
  std::string_view name;
  std::string text;  // what was computed, what IEEE 754 requires, and the likely cause
};

/// Runs every check in the calling thread (rounding mode and FTZ/DAZ are per thread; a worker thread that
/// calls foreign code runs it again). Empty: all proofs of reference/real apply. Well under a microsecond.
std::vector<SelfTestFailure> self_test();

/// All failures as one message of several lines; empty if there is none.
std::string describe(const std::vector<SelfTestFailure>& failures);

}  // namespace assay
