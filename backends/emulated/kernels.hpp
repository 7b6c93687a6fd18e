// The ops of this backend. declare_* and run_* throw Unsupported (or the reference's InputError, which
// says what the unit does not take).
#pragma once

#include <string>

#include "backends/plugin/kernels.hpp"

namespace assay_emulated {

using assay_plugin::Declared;

Declared declare_attention(const assay_plugin::Call& call);
void run_attention(const assay_plugin::Call& call, const assay_plugin::Trace& trace);
Declared declare_matmul(const assay_plugin::Call& call);
void run_matmul(const assay_plugin::Call& call, const assay_plugin::Trace& trace);
Declared declare_moe(const assay_plugin::Call& call);
void run_moe(const assay_plugin::Call& call, const assay_plugin::Trace& trace);

}  // namespace assay_emulated
