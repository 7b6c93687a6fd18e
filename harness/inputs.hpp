// From a case to the bytes that a backend gets: index tensors, fill, encode.
#pragma once

#include <map>
#include <memory>
#include <string>
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

// Throws InputError for a fill or a fault that is none. A file is read whole, and the reference asked for its
// truth: what is damaged, an expert or a page that there is not, a scale that is none, is told before a
// kernel is given it and blamed for it.
void check_inputs(const Case& c, const InputLists& lists);

// Whether make_inputs() would make a case with its fault. Of many cases: what cases of other faults share is
// made once.
class FaultSites {
 public:
  explicit FaultSites(const InputLists& lists);
  FaultSites(const FaultSites&) = delete;
  FaultSites& operator=(const FaultSites&) = delete;
  ~FaultSites();
  bool finds(const Case& c);

 private:
  struct Before;
  const InputLists& lists_;
  std::map<std::string, std::unique_ptr<Before>>
      known_;  // by case.inputs() without a fault; empty: there are none
};

}  // namespace assay
