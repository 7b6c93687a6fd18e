// Parts of a case's inputs as the inputs of a smaller case, and the same inputs in another order: what laws
// compare.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/inputs.hpp"

namespace assay {

// `count` elements of an output of the first call, from `first` on, that stand for those of the second call
// from `second`.
struct SharedRange {
  std::int64_t first, second, count;
};
using SharedRanges = std::vector<std::vector<SharedRange>>;  // for each output, in the op's order

// How a case's tensors hang on attributes: `fewer` is the same case with one unit less of them (rows=7 for
// rows=8; heads=6 kv_heads=3 for heads=8 kv_heads=4). The one axis of a plane that differs has a whole number
// of elements per unit.
struct Units {
  const Case& whole;
  const Case& fewer;
  std::int64_t count;                  // of the whole case
  std::vector<std::string> kept = {};  // tensors that stay as they are whatever their axes say
};

// The whole case's units [first, first + part's count) as the inputs of `part`. Throws InputError
// shape_mismatch for a plane that cannot be taken apart so.
Inputs sliced(const Units& units, const Inputs& inputs, const Case& part, std::int64_t first);
SharedRanges sliced_pieces(const Units& units, const Case& part, std::int64_t first);

// Unit order[i] of the whole at place i.
Inputs permuted(const Units& units, const Inputs& inputs, std::span<const std::int64_t> order);
SharedRanges permuted_pieces(const Units& units, std::span<const std::int64_t> order);

}  // namespace assay
