// From a case to the bytes that a backend gets: index tensors, fill, encode.
#pragma once

#include <vector>

#include "harness/case.hpp"
#include "reference/inputs/lists.hpp"
#include "reference/ops/op.hpp"

namespace assay {

struct Inputs {
  std::vector<TensorSpec> tensors;  // inputs and outputs, in the op's order
  TensorSet set;                    // the inputs' bytes
  std::vector<UnusedRange> unused;
  double fill_seconds = 0, encode_seconds = 0;  // what making them took: drawing numbers, encoding them

  const Fault* fault = nullptr;  // of a case with fault=, together with one of:
  TensorSet clean;               // an input fault: the bytes without it
  TensorSet corrupted;           // a corruption: what the kernel gets, while `set` is what the reference sees

  const TensorSet& given() const { return corrupted.empty() ? set : corrupted; }
};

// A pure function of case.inputs(). Throws InputError.
Inputs make_inputs(const Case& c, const InputLists& lists);

}  // namespace assay
