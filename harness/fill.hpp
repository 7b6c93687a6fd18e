// Fills: the inputs of a case as real numbers, shaped for the fault that they are meant to show.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/op.hpp"

namespace assay {

struct FillRequest {
  const Op& op;
  const Attributes& attributes;
  std::span<const TensorSpec> tensors;  // all of the op's; a fill writes those of role data
  const TensorSet& indices;  // the index tensors, already made: a fill may aim through the page table
  std::uint64_t seed;
};

using Values = std::map<std::string, std::vector<float>>;  // tensor name -> row-major elements

struct Fill {
  std::string_view name;
  std::string_view op;     // the op whose tensors it knows; "" for any op
  std::string_view shows;  // one line: what a wrong kernel cannot hide under it
  void (*make)(const FillRequest&, Values&);
};

// The one list; it stands in cases/fills and is linked in, so that the harness knows no fill by name.
std::span<const Fill> fills();
// A fill of this name for this op: the op's own before a general one. Throws InputError unknown_name with
// those allowed.
const Fill& fill(std::string_view name, std::string_view op);

}  // namespace assay
