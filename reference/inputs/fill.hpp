// Fills: the inputs of a case as real numbers, shaped for the fault that they are meant to show.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  // The probe stands at drawn places among numbers like any others: no row of few values says what is asked.
  bool embedded = false;
};

using Values = std::map<std::string, std::vector<float>>;  // tensor name -> row-major elements

struct Fill {
  std::string_view name;
  std::string_view op;     // the op whose tensors it knows; "" for any op
  std::string_view shows;  // one line: what a wrong kernel cannot hide under it
  void (*make)(const FillRequest&, Values&);
  // Of how many terms of one sum, lost together, the limits show the loss in every output, where each limit
  // is at most `loosest` of its value; none where no number of them is certain to show. Empty: nothing is
  // derived for the fill.
  std::optional<std::int64_t> (*terms_seen)(const Attributes&, double loosest) = nullptr;
  std::string_view bare = {};  // of an embedded one: the fill whose probe it is
};

}  // namespace assay
