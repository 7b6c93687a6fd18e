// What a contract's accumulator token stands for, and sums in a scalar accumulator in a declared order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/rounding.hpp"

namespace assay {

// f64 f32 f16 bf16: every product and every sum rounds to nearest in that format (order: see the contract).
// i32: exact modulo 2^32. Any other token: a row of matrix_units().
struct Accumulator {
  enum class Kind : std::uint8_t { floating, integer, unit };
  std::string_view name;
  Kind kind;
  Precision precision;     // of the accumulator: of unit.out for a unit, {32, 0, 30} for i32
  const MatrixUnit* unit;  // kind unit only
};
Accumulator accumulator(std::string_view name);  // throws InputError unknown_name, listing what there is
bool find_accumulator(std::string_view name, Accumulator& found);  // false when unknown

enum class SumOrder : std::uint8_t {
  sequential,  // s = c; s = s + x_0; s = s + x_1; ...
  tree,   // balanced: neighbours are added pairwise until one is left (an odd last one moves up); then c +
          // that
  lanes,  // lane j sums x_j, x_{j+w}, ... sequentially from its first term; the lanes by `tree`; then c +
          // that
};

struct OrderedSum {
  Precision precision = kPrecisionF32;
  SumOrder order = SumOrder::sequential;
  int lanes = 1;       // order lanes only
  bool fused = false;  // dots: one rounding for x + a * b where a running sum exists (fused multiply-add)
};

// Number of additions that the longest-travelled term passes through, the final + c included.
std::int64_t addition_depth(const OrderedSum& how, std::int64_t n);
// c + sum x_i; every x_i and c must be representable in how.precision. An empty sum is c.
double ordered_sum(const OrderedSum& how, std::span<const double> x, double c = 0);
// c + sum a_i b_i, operands of at most 24 significant bits, each product rounded unless fused.
double ordered_dot(const OrderedSum& how, std::span<const float> a, std::span<const float> b, double c = 0);

}  // namespace assay
