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
  // Attention (ops/attention/limits).
  logit_sum,
  logit_conversion,
  logit_scale,
  logit_argument,
  logit_scores,
  logit_softcap,
  logit_bias,
  logit_q_underflow,
  logit_overflow,
  weight_exp,
  weight_rescale,
  weight_merge,
  weight_sink,
  weight_log,
  weight_underflow,
  weight_cast,
  weight_cast_underflow,
  weight_share,
  row_sum,
  row_sum_rescale,
  row_sum_overflow,
  value_sum,
  value_rescale,
  value_rescale_underflow,
  value_merge,
  value_conversion,
  value_overflow,
  attention_quotient,
  attention_store,
  tile_exp,
  tile_cast,
  shape_undeclared,
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
    // Attention.
    {Rule::logit_sum, "logit_sum", "q.k is summed in its accumulator"},
    {Rule::logit_conversion, "logit_conversion", "q and K are converted, or decoded with a rounding"},
    {Rule::logit_scale, "logit_scale", "the scale, its factor log2 e and their product with q.k are rounded"},
    {Rule::logit_argument, "logit_argument",
     "the exponents formed from a logit and a running maximum are rounded"},
    {Rule::logit_scores, "logit_scores", "logits are rounded to `scores`"},
    {Rule::logit_softcap, "logit_softcap", "tanh errs, and the products around it are rounded"},
    {Rule::logit_bias, "logit_bias", "the bias of ALiBi and its sum are rounded"},
    {Rule::logit_q_underflow, "logit_q_underflow", "q times the scale underflows before q.k"},
    {Rule::logit_overflow, "logit_overflow",
     "nothing is claimed where a logit, or what it is made of, may overflow"},
    {Rule::weight_exp, "weight_exp", "the exp of a weight errs"},
    {Rule::weight_rescale, "weight_rescale", "each rise of the running maximum multiplies by another exp"},
    {Rule::weight_merge, "weight_merge", "each merge of parts multiplies by another exp"},
    {Rule::weight_sink, "weight_sink", "a sink above the keys rescales them once more"},
    {Rule::weight_log, "weight_log", "the log-sum-exps of parts err"},
    {Rule::weight_underflow, "weight_underflow",
     "a weight, or a rescale, below the normal numbers is flushed or errs by subnormal ulps"},
    {Rule::weight_cast, "weight_cast", "weights are rounded to p"},
    {Rule::weight_cast_underflow, "weight_cast_underflow",
     "weights below the normal numbers of p are rounded to p"},
    {Rule::weight_share, "weight_share", "a share is a quotient before it is rounded to p"},
    {Rule::row_sum, "row_sum", "the row sum is formed in its accumulator"},
    {Rule::row_sum_rescale, "row_sum_rescale", "the row sum is rounded when it is rescaled"},
    {Rule::row_sum_overflow, "row_sum_overflow", "nothing is claimed where the row sum may overflow"},
    {Rule::value_sum, "value_sum", "p.v is summed in its accumulator"},
    {Rule::value_rescale, "value_rescale", "the accumulator is rounded when it is rescaled"},
    {Rule::value_rescale_underflow, "value_rescale_underflow", "a rescaled accumulator underflows"},
    {Rule::value_merge, "value_merge", "the outputs of parts are scaled, divided and added"},
    {Rule::value_conversion, "value_conversion", "V is converted, or decoded with a rounding"},
    {Rule::value_overflow, "value_overflow", "nothing is claimed where a weight or a sum of PV may overflow"},
    {Rule::attention_quotient, "attention_quotient",
     "the quotient by the row sum, and the scale of V, are rounded"},
    {Rule::attention_store, "attention_store", "the output is rounded to its format"},
    {Rule::tile_exp, "tile_exp", "key by key: exp errs, for a weight and for each rise of the maximum"},
    {Rule::tile_cast, "tile_cast",
     "key by key: a weight that lies on either side of a middle may be cast to either"},
    {Rule::shape_undeclared, "shape_undeclared",
     "the sharper levels claim nothing of a kernel whose shape is not declared"},
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
