// The signature of an op (op.hpp), read. An axis is an attribute or a number, or a product or a quotient of
// two; a condition is an attribute and the words that it is, or with ! is not ("page=!0",
// "policy=locked|calibrated"). An input of integers by name is an index tensor, every other holds real
// numbers. A size that only the op knows (attention's pages) has a word for people alone: tensors() of such
// an op is written by hand.
#pragma once

#include <string_view>
#include <vector>

#include "reference/ops/op.hpp"

namespace assay {

struct SignatureLine {
  std::string_view name, axes, format, condition;  // "mask", "rows,cols", "int8", "mask=random"
  bool output;
};
std::vector<SignatureLine> signature_lines(std::string_view signature);

// The tensors of these attributes. Throws InputError where a block does not divide a row, or an axis is
// neither an attribute nor a number.
std::vector<TensorSpec> signature_tensors(std::string_view signature, const Attributes& attributes);

// Op::tensors of a row. Check throws InputError on an impossible shape that the signature does not show.
inline void any_shape(const Attributes&) {}
template <const Op& Row, void (*Check)(const Attributes&) = any_shape>
std::vector<TensorSpec> tensors_of(const Attributes& attributes) {
  Check(attributes);
  return signature_tensors(Row.signature, attributes);
}

}  // namespace assay
