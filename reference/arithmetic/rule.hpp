// The rules of the limits, by name: each term of a bound that stands for one thing a kernel may do, and each condition under
// which a bound claims anything. The limits call rule() and claims(), which return what they are given. A test makes one
// rule unsound at a time (Unsound), and the attack has to notice: a rule that can be dropped or halved unnoticed is not
// needed, or not attacked. The share of a limit that a rule brings is asked in the same way.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace assay {

enum class Rule : std::uint8_t {
  none,
  // Sums and products (arithmetic/dot_bound, ops/enclosure).
  sum_rounding,
  sum_flush,
  product_rounding,
  product_underflow,
  unit_cut,
  unit_rounding,
  unit_underflow,
  part_addition,
  sum_overflow,
  // Operands, quotients and functions of ops on rows (ops/enclosure).
  operand_flush,
  quotient_ulp,
  quotient_underflow,
  reciprocal_underflow,
  reciprocal_overflow,
  divisor_rounding,
  rsqrt_ulp,
  tanh_ulp,
  tanh_underflow,
  // Sums of exponentials (ops/exp_sum), softmax, logsumexp.
  exp_ulp,
  exp_argument,
  exp_argument_flush,
  exp_underflow,
  exp_logit,
  exp_base2_shift,
  exp_rescale,
  exp_rescale_underflow,
  exp_order,
  exp_bounded,
  weight_rounding,
  weight_underflow,
  log_ulp,
  log_abs,
  log_base,
  // Moments (ops/variance, ops/merged_moments).
  mean_shift,
  square_rounding,
  square_underflow,
  welford_rounding,
  welford_division,
  welford_underflow,
  merge_rounding,
  merge_underflow,
  merge_overflow,
  // The transform (ops/wht).
  scale_rounding,
  scale_underflow,
  kCount,
};

struct RuleRow {
  Rule rule;
  std::string_view name;
  std::string_view meaning;  // what a kernel may do that the rule pays for, or when nothing is claimed
};

inline constexpr auto kRules = std::to_array<RuleRow>({
    {Rule::sum_rounding, "sum_rounding", "each addition of a floating sum is rounded"},
    {Rule::sum_flush, "sum_flush", "a subnormal sum is flushed"},
    {Rule::product_rounding, "product_rounding", "a product is rounded before it is added"},
    {Rule::product_underflow, "product_underflow", "a product, or a fused sum, underflows"},
    {Rule::unit_cut, "unit_cut", "a matrix unit cuts each term of a block at its last common place"},
    {Rule::unit_rounding, "unit_rounding", "a matrix unit rounds each block into its register"},
    {Rule::unit_underflow, "unit_underflow", "the result of a block is subnormal"},
    {Rule::part_addition, "part_addition", "partial sums of a unit are added, each rounded"},
    {Rule::sum_overflow, "sum_overflow", "nothing is claimed where a partial sum may overflow"},
    {Rule::operand_flush, "operand_flush", "a subnormal operand is read as 0"},
    {Rule::quotient_ulp, "quotient_ulp", "a quotient, or reciprocal and product, errs by its declared ulps"},
    {Rule::quotient_underflow, "quotient_underflow", "a quotient is subnormal: its ulps are steps"},
    {Rule::reciprocal_underflow, "reciprocal_underflow", "a reciprocal that is multiplied underflows"},
    {Rule::reciprocal_overflow, "reciprocal_overflow", "nothing is claimed where a reciprocal may overflow"},
    {Rule::divisor_rounding, "divisor_rounding", "a divisor is rounded"},
    {Rule::rsqrt_ulp, "rsqrt_ulp", "1/sqrt errs by its declared ulps"},
    {Rule::tanh_ulp, "tanh_ulp", "tanh errs by its declared ulps"},
    {Rule::tanh_underflow, "tanh_underflow", "a tanh is subnormal: its ulps are steps"},
    {Rule::exp_ulp, "exp_ulp", "exp errs by its declared ulps"},
    {Rule::exp_argument, "exp_argument", "the argument of exp is rounded"},
    {Rule::exp_argument_flush, "exp_argument_flush", "the argument of exp underflows"},
    {Rule::exp_underflow, "exp_underflow", "an exp is subnormal: its ulps are steps"},
    {Rule::exp_logit, "exp_logit", "logits err, and the subtracted maximum with them"},
    {Rule::exp_base2_shift, "exp_base2_shift", "M log2 e is rounded before it is subtracted"},
    {Rule::exp_rescale, "exp_rescale", "the sum of an online kernel is multiplied when its maximum changes"},
    {Rule::exp_rescale_underflow, "exp_rescale_underflow", "that factor, or that product, underflows"},
    {Rule::exp_order, "exp_order", "each addition of a sum of exponentials is rounded"},
    {Rule::exp_bounded, "exp_bounded", "nothing is claimed where a sum of exponentials may overflow"},
    {Rule::weight_rounding, "weight_rounding", "a weight is kept in a narrower format"},
    {Rule::weight_underflow, "weight_underflow", "a weight that is kept in a narrower format underflows"},
    {Rule::log_ulp, "log_ulp", "log errs by its declared ulps"},
    {Rule::log_abs, "log_abs", "log of a number between 1/2 and 2 errs absolutely"},
    {Rule::log_base, "log_base", "log2 e, and what is multiplied by it, is rounded"},
    {Rule::mean_shift, "mean_shift", "the variance is taken about a mean that errs"},
    {Rule::square_rounding, "square_rounding", "differences, squares, their sum and quotient are rounded"},
    {Rule::square_underflow, "square_underflow", "a difference, a square or a sum of squares underflows"},
    {Rule::welford_rounding, "welford_rounding", "an update of one accumulator is rounded"},
    {Rule::welford_division, "welford_division", "a difference is divided by k"},
    {Rule::welford_underflow, "welford_underflow", "an operation of an update underflows"},
    {Rule::merge_rounding, "merge_rounding", "a merge of parts of a row is rounded"},
    {Rule::merge_underflow, "merge_underflow", "an operation of a merge underflows"},
    {Rule::merge_overflow, "merge_overflow",
     "nothing is claimed where n_A n_B, or a product by it, may overflow"},
    {Rule::scale_rounding, "scale_rounding", "the factor of a transform, and products by it, are rounded"},
    {Rule::scale_underflow, "scale_underflow", "a product by the factor of a transform underflows"},
});
static_assert(kRules.size() + 1 == static_cast<std::size_t>(Rule::kCount), "one row a rule");

namespace rule_detail {
struct Weakened {
  Rule rule = Rule::none;
  double factor = 1;
};
inline constinit Weakened weakened;  // written by tests alone, on one thread
}  // namespace rule_detail

// `term`, which the rule of that name brings.
inline double rule(Rule which, double term) {
  if (rule_detail::weakened.rule != which) return term;
  return rule_detail::weakened.factor == 0 ? 0 : term * rule_detail::weakened.factor;
}
// Whether a bound claims anything: `holds`, unless that very condition is made unsound.
inline bool claims(Rule which, bool holds) { return holds || rule_detail::weakened.rule == which; }

// For its lifetime the rule's terms count `factor` times, and its conditions always hold.
class Unsound {
 public:
  explicit Unsound(Rule which, double factor = 0) { rule_detail::weakened = {which, factor}; }
  ~Unsound() { rule_detail::weakened = {}; }
  Unsound(const Unsound&) = delete;
  Unsound& operator=(const Unsound&) = delete;
};

}  // namespace assay
