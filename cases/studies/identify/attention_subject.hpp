// The kernel of one case line of attention, asked through its worker.
#pragma once

#include "cases/studies/identify/attention.hpp"
#include "cases/studies/identify/kernel_call.hpp"
#include "harness/case.hpp"

namespace assay {

// Throws InputError bad_value for a case whose steps no schedule names: other formats of K and V than q's,
// soft caps, sinks, ALiBi.
AttentionAsk attention_subject(const Case& c, const Kernels& source);

}  // namespace assay
