// A formula as functions of Python over Decimal, for a script that shows a finding without assay.
#pragma once

#include <string>
#include <vector>

#include "reference/ops/formula/text.hpp"

namespace assay::culprit {

struct PythonFormula {
  std::string text;  // helpers, one function for each let and state, and exact(index...) of the output
  std::vector<std::string> stored;  // earlier outputs that it reads, as the kernel stored them
};

// What is rounded in between (casts, a let's format) is not rounded there: the definition, and not its
// arithmetic. Tensors are read by at(NAME, index...), attributes from A.
PythonFormula python_formula(const formula::Text& formula, const std::string& output);

}  // namespace assay::culprit
