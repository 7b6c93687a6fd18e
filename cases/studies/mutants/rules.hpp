// What the usual checks of kernels say of an output: the rules that others live by, as strict as they are
// customary.
#pragma once

#include <cmath>
#include <span>
#include <string_view>
#include <vector>

namespace assay::mutants {

struct RuleInput {
  std::span<const double> truth;  // f64
  std::span<const double> got;
  std::span<const double> reference;  // the correct kernel's output: a reference of the same low precision
  std::string_view format;            // of the output
  bool fp8 = false;                   // some operand is kept in 8 bits or fewer
  bool integers = false;              // the inputs are small integers
};

struct Rule {
  std::string_view name;
  std::string_view source;
  bool (*accepts)(const RuleInput&);
};
std::span<const Rule> rules();

}  // namespace assay::mutants
