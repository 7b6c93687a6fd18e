// Steps 4 and 5 of bounds.hpp: the weighted sum of V, with the error of the accumulator that forms it.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/ops/attention/limits/bounds_detail.hpp"

namespace assay::attention_bounds {

// V as an accumulator sees it, looked at once.
struct ValueFacts {
  explicit ValueFacts(const KeyValues& kv);
  // [keys, dv]: exponent, not below the format's smallest; lowest set bit.
  std::vector<std::int16_t> head, lattice;
  int emin;
  double largest = 0;
};

// The weight that multiplies row j of V, relative to the tile's maximum: weight +- (common + own).
struct ValueTerm {
  double weight = 0;
  double common = 0;   // deviation that the denominator shares
  double own = 0;      // deviation that it does not share (a cast)
  bool known = false;  // the kernel's operand is exactly `weight`
  int head = 0;        // exponent of the operand at most, not below its format's smallest
  bool subnormal = false;
};

// Per column, in units of exp(top of the row): sum weight v, and the deviations of the kernel's numerator
// from it.
struct ValueSums {
  std::vector<double> sum, common, own;
  std::vector<double> parts;  // sum over the parts of |what each part adds|, at most
};
// drift[i]: largest factor between the units of part i's accumulator and ours.
ValueSums ordered_value_sums(const AttentionArithmetic& how, const KeyValues& kv, const ValueFacts& facts,
                             const RowLogits& row, const std::vector<ValueTerm>& terms,
                             const std::vector<double>& drift);

}  // namespace assay::attention_bounds
