// The kernel of one case line of attention, asked through its worker.
#pragma once

#include "cases/studies/identify/attention.hpp"
#include "harness/case.hpp"
#include "harness/judge.hpp"

namespace assay {

// Throws InputError bad_value for a case whose steps no schedule names: other formats of K and V than q's, soft caps, sinks, ALiBi.
AttentionAsk attention_subject(const Case& c, Workers& workers);

}  // namespace assay
