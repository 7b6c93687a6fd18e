// A call of the C interface as the reference sees it, and results back into the call's memory.
#pragma once

#include <span>
#include <string>

#include "backends/plugin/call.hpp"
#include "reference/ops/op.hpp"

namespace assay_emulated {

assay::Attributes attributes_of(const assay_plugin::Call& call, const assay::Op& op);
// All inputs of the op.
assay::TensorSet inputs_of(const assay_plugin::Call& call, const assay::Op& op,
                           const assay::Attributes& attributes);
// values [rows, columns] row-major, each a value of the output's scalar format or to be rounded to it.
void store(const assay_tensor& output, std::span<const float> values);
void store(const assay_tensor& output, std::span<const double> values, assay::Overflow overflow);

}  // namespace assay_emulated
