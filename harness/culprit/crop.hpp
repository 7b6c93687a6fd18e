// A specimen's data cut to smaller tensors, and rewritten as other numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/culprit/specimen.hpp"

namespace assay::culprit {

// What is left of an axis that becomes `to` groups of what was `from` of them.
struct Cut {
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> kept;  // groups, ascending; to of them
};
// The first, or the last `to` groups; all but [first, first + count).
Cut first_of(std::int64_t from, std::int64_t to);
Cut last_of(std::int64_t from, std::int64_t to);
Cut without(std::int64_t from, std::int64_t first, std::int64_t count);

// The data of `from` for the smaller (or otherwise stored) tensors of `to`: each axis that differs is cut,
// or, where it is no multiple of the cut's groups, cut at its end. Index tensors are cut too, or made anew.
// Nothing when a tensor grows or changes its rank. Throws InputError.
std::optional<Inputs> cropped(const Specimen& from, const Case& to, const Cut& cut, bool new_indices,
                              const InputLists& lists);

// The numbers of one data tensor, and the specimen with others in their place.
std::vector<float> numbers_of(const Encoded& tensor);
Encoded encoded_as(const Encoded& like, std::span<const float> numbers);
// How far from simple numbers are: 0, then 1, then a power of two, then by the bits of the fraction. A format
// that stores what it is given only nearly could otherwise be rewritten for ever.
std::size_t weight_of(const std::vector<float>& numbers);

}  // namespace assay::culprit
