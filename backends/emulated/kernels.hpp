// The two ops of this backend. declare_* and run_* throw Unsupported (or the reference's InputError, which
// says what the unit does not take).
#pragma once

#include <string>

#include "backends/plugin/call.hpp"

namespace assay_emulated {

struct Declared {
  std::string contract, path;
};

Declared declare_attention(const assay_plugin::Call& call);
void run_attention(const assay_plugin::Call& call, const assay_plugin::Trace& trace);
Declared declare_matmul(const assay_plugin::Call& call);
void run_matmul(const assay_plugin::Call& call, const assay_plugin::Trace& trace);

}  // namespace assay_emulated
