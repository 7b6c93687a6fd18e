// Ops that are formulas: those of library/*.op, and a user's own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/formula/text.hpp"
#include "reference/ops/op.hpp"

namespace assay::formula {

// A text as an op: attributes, tensors, contract, truth, manual. Throws what parse() and outline_of() throw.
class FormulaOp {
 public:
  explicit FormulaOp(std::string_view text);
  ~FormulaOp();
  FormulaOp(const FormulaOp&) = delete;
  FormulaOp& operator=(const FormulaOp&) = delete;
  const Op& op() const;
  const Text& text() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// In the order in which they were added, the library's first.
std::vector<const Op*> ops();
const FormulaOp* find(std::string_view name);  // nullptr: no formula of that name
// Files of a user's formulas, separated by colons, that every program of assay takes up.
inline constexpr const char* kFilesVariable = "ASSAY_OPS";
// A user's formula. Throws InputError: what is wrong with the text, or a name that an op has already.
const Op& add(std::string_view text);

}  // namespace assay::formula
