// Numbers that the formats of a mixture of experts hold as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/formats/format.hpp"

namespace assay {

// Bytes of these numbers. Scales in a plane of their own are powers of two that leave room for what shares
// them, or all 1. nullopt where the shape is none of the format's.
std::optional<Encoded> exactly_encoded(const std::string& name, const Shape& shape,
                                       const std::vector<float>& values, bool unit_scales);

// One side of a product whose terms cancel in pairs of columns, [rows, k], and the element of its format.
struct PairedColumns {
  std::string element;
  std::vector<float>* values;
};
// Makes the pairs so far apart, by powers of two, that sums of few bits are rounded; numbers of more bits
// than an element has become whole ones up to 6. Pairs stay pairs. The last column is left alone where it is
// given, and the one that cancels it.
void set_apart(const PairedColumns& a, const PairedColumns& b, std::int64_t k, bool last_is_given);

}  // namespace assay
