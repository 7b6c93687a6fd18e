// The rules of the limits, by name: each term of a bound that stands for one thing a kernel may do, and each
// condition under which a bound claims anything. The limits call rule() and claims(), which return what they
// are given. A test makes one rule unsound at a time (Unsound), and the attack has to notice: a rule that can
// be dropped or halved unnoticed is not needed, or not attacked. The share of a limit that a rule brings is
// asked in the same way.
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
  logit_argument,
  logit_scores,
  logit_softcap,
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
  attention_underflow,
  attention_store,
  tile_exp,
  tile_cast,
  shape_undeclared,
  hidden_number,
  hidden_sums,
  // Numbers decoded from codes and scales (ops/decoding).
  decode_rounding,
  decode_minimum,
  decode_underflow,
  decode_last_underflow,
  decode_flush,
  decode_flushed_product,
  decode_overflow,
  decode_rotated_underflow,
  // Quantised activations and outputs (ops/operand, ops/admissible).
  quotient_rounding,
  quotient_flush,
  quotient_range,
  quotient_ties,
  code_step,
  scale_rounding,
  scale_underflow,
  code_quotient,
  block_move,
  block_step,
  nvfp4_rounding,
  nvfp4_range,
  mx_logarithm,
  search_step,
  search_comparison,
  search_integer,
  search_storage,
  block_sum_rounding,
  block_sum_storage,
  block_sum_overflow,
  block_scale_underflow,
  // What is stored (ops/op_io).
  store_flush,
  store_way_overflow,
  // Operands, quotients and functions of ops on rows (ops/enclosure).
  operand_flush,
  operand_rounding,
  step_overflow,
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
  exp_sink_overflow,
  kept_rounding,
  kept_underflow,
  kept_overflow,
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
  welford_overflow,
  merge_rounding,
  merge_underflow,
  merge_overflow,
  // The transform (ops/wht).
  transform_rounding,
  transform_underflow,
  kCount,
};

struct RuleRow {
  Rule rule;
  std::string_view name;
  std::string_view meaning;  // what a kernel may do that the rule pays for, or when nothing is claimed
  // It holds or it does not: when a bound claims anything, or whether a case is admitted. All others are
  // terms, of which a part may be missing.
  bool condition = false;
};
inline constexpr bool kCondition = true;

inline constexpr auto kRules = std::to_array<RuleRow>({
    {Rule::sum_rounding, "sum_rounding", "each addition of a floating sum is rounded"},
    {Rule::sum_flush, "sum_flush", "a subnormal sum is flushed"},
    {Rule::product_rounding, "product_rounding", "a product is rounded before it is added"},
    {Rule::product_underflow, "product_underflow", "a product, or a fused sum, underflows"},
    {Rule::unit_cut, "unit_cut", "a matrix unit cuts each term of a block at its last common place"},
    {Rule::unit_rounding, "unit_rounding", "a matrix unit rounds each block into its register"},
    {Rule::unit_underflow, "unit_underflow", "the result of a block is subnormal"},
    {Rule::part_addition, "part_addition", "partial sums of a unit are added, each rounded"},
    {Rule::sum_overflow, "sum_overflow", "nothing is claimed where a partial sum may overflow", kCondition},
    // Attention.
    {Rule::logit_sum, "logit_sum", "q.k is summed in its accumulator"},
    {Rule::logit_conversion, "logit_conversion", "q and K are converted, or decoded with a rounding"},
    {Rule::logit_argument, "logit_argument",
     "the way from q.k to an exponent: scale, log2 e, bias, the difference from a running maximum, each "
     "rounded"},
    {Rule::logit_scores, "logit_scores", "logits are rounded to `scores`"},
    {Rule::logit_softcap, "logit_softcap", "tanh errs, and the products around it are rounded"},
    {Rule::logit_q_underflow, "logit_q_underflow", "q times the scale underflows before q.k"},
    {Rule::logit_overflow, "logit_overflow",
     "nothing is claimed where a logit, or what it is made of, may overflow", kCondition},
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
    {Rule::row_sum_overflow, "row_sum_overflow", "nothing is claimed where the row sum may overflow",
     kCondition},
    {Rule::value_sum, "value_sum", "p.v is summed in its accumulator"},
    {Rule::value_rescale, "value_rescale", "the accumulator is rounded when it is rescaled"},
    {Rule::value_rescale_underflow, "value_rescale_underflow", "a rescaled accumulator underflows"},
    {Rule::value_merge, "value_merge", "the outputs of parts are scaled, divided and added"},
    {Rule::value_conversion, "value_conversion", "V is converted, or decoded with a rounding"},
    {Rule::value_overflow, "value_overflow", "nothing is claimed where a weight or a sum of PV may overflow",
     kCondition},
    {Rule::attention_quotient, "attention_quotient",
     "the quotient by the row sum, and the scale of V, are rounded"},
    {Rule::attention_underflow, "attention_underflow", "the quotient, or the scale of V, underflows"},
    {Rule::attention_store, "attention_store", "the output is rounded to its format"},
    {Rule::tile_exp, "tile_exp", "key by key: exp errs, for a weight and for each rise of the maximum"},
    {Rule::tile_cast, "tile_cast",
     "key by key: a weight that lies on either side of a middle may be cast to either"},
    {Rule::shape_undeclared, "shape_undeclared",
     "the sharper levels claim nothing of a kernel whose shape is not declared", kCondition},
    {Rule::hidden_number, "hidden_number",
     "nothing is claimed where a mask is added to a hidden key whose number or logit is not finite, or may "
     "not be",
     kCondition},
    {Rule::hidden_sums, "hidden_sums",
     "nothing is claimed where sums of keys under a finite mask, met first, may overflow", kCondition},
    {Rule::decode_rounding, "decode_rounding", "each step from code and scale to a number is rounded"},
    {Rule::decode_minimum, "decode_minimum", "what is rounded before a minimum is taken away"},
    {Rule::decode_underflow, "decode_underflow",
     "a product of scales underflows, and is multiplied by the rest"},
    {Rule::decode_last_underflow, "decode_last_underflow", "the decoded number itself underflows"},
    {Rule::decode_flush, "decode_flush", "a stored scale or number that is subnormal is read as 0",
     kCondition},
    {Rule::decode_flushed_product, "decode_flushed_product", "a subnormal product of scales is flushed"},
    {Rule::decode_overflow, "decode_overflow", "nothing is claimed where a product of scales may overflow",
     kCondition},
    {Rule::decode_rotated_underflow, "decode_rotated_underflow",
     "terms and partial sums of a rotated block underflow"},
    {Rule::quotient_rounding, "quotient_rounding", "scale, reciprocal and quotient are rounded, in any form"},
    {Rule::quotient_flush, "quotient_flush", "a subnormal activation is read as 0 before it is quantised",
     kCondition},
    {Rule::quotient_range, "quotient_range",
     "nothing is claimed where scale or reciprocal leave the normal numbers", kCondition},
    {Rule::quotient_ties, "quotient_ties", "a tie of q8 goes to even or away from zero", kCondition},
    {Rule::code_step, "code_step", "where a code is not decided it may be the next one"},
    {Rule::scale_rounding, "scale_rounding", "the scale of activations is rounded, in any form"},
    {Rule::scale_underflow, "scale_underflow",
     "a block whose reciprocal overflows has any codes and a tiny scale"},
    {Rule::code_quotient, "code_quotient", "under code=any a quotient is rounded, in any form"},
    {Rule::block_move, "block_move", "a block's extremes and quotients are off by some roundings"},
    {Rule::block_step, "block_step", "a code and the scale of its block are off together"},
    {Rule::nvfp4_rounding, "nvfp4_rounding",
     "both scales of nvfp4 and its quotients are off by some roundings"},
    {Rule::nvfp4_range, "nvfp4_range", "nothing is claimed where block scale / global scale is subnormal",
     kCondition},
    {Rule::mx_logarithm, "mx_logarithm", "ggml's exponent is that of a rounded logarithm, or exact",
     kCondition},
    {Rule::search_step, "search_step", "a search may end at another step than the plain one", kCondition},
    {Rule::search_comparison, "search_comparison", "sums that a search compares are rounded"},
    {Rule::search_integer, "search_integer",
     "a step that was searched for becomes an integer times the block's"},
    {Rule::search_storage, "search_storage", "the scale of a searched block is stored in f16"},
    {Rule::block_sum_rounding, "block_sum_rounding", "products with codes and with minima are summed apart"},
    {Rule::block_sum_storage, "block_sum_storage", "the sum of a block and its scale are stored in f16"},
    {Rule::block_sum_overflow, "block_sum_overflow", "nothing is claimed where a block's sum may leave f16",
     kCondition},
    {Rule::block_scale_underflow, "block_scale_underflow", "the product of two blocks' scales underflows"},
    {Rule::store_flush, "store_flush", "a subnormal result is stored as 0"},
    {Rule::store_way_overflow, "store_way_overflow",
     "an overflow on the way saturates in the output, or stays", kCondition},
    {Rule::operand_flush, "operand_flush", "a subnormal operand is read as 0"},
    {Rule::operand_rounding, "operand_rounding",
     "an operand that is wider than the arithmetic is rounded where it is held in it, alone"},
    {Rule::step_overflow, "step_overflow", "nothing is claimed where the result of one step may overflow",
     kCondition},
    {Rule::quotient_ulp, "quotient_ulp", "a quotient, or reciprocal and product, errs by its declared ulps"},
    {Rule::quotient_underflow, "quotient_underflow", "a quotient is subnormal: its ulps are steps"},
    {Rule::reciprocal_underflow, "reciprocal_underflow", "a reciprocal that is multiplied underflows"},
    {Rule::reciprocal_overflow, "reciprocal_overflow", "nothing is claimed where a reciprocal may overflow",
     kCondition},
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
    {Rule::exp_bounded, "exp_bounded", "nothing is claimed where a sum of exponentials may overflow",
     kCondition},
    {Rule::exp_sink_overflow, "exp_sink_overflow",
     "the exp of a sink overflows against the maximum of the keys, and all weights are 0"},
    {Rule::kept_rounding, "kept_rounding", "a weight is kept in a narrower format"},
    {Rule::kept_underflow, "kept_underflow", "a weight that is kept in a narrower format underflows"},
    {Rule::kept_overflow, "kept_overflow", "nothing is claimed where a weight that is kept may overflow",
     kCondition},
    {Rule::log_ulp, "log_ulp", "log errs by its declared ulps"},
    {Rule::log_abs, "log_abs", "log of a number between 1/2 and 2 errs absolutely"},
    {Rule::log_base, "log_base", "log2 e, and what is multiplied by it, is rounded"},
    {Rule::mean_shift, "mean_shift", "the variance is taken about a mean that errs"},
    {Rule::square_rounding, "square_rounding", "differences, squares, their sum and quotient are rounded"},
    {Rule::square_underflow, "square_underflow", "a difference, a square or a sum of squares underflows"},
    {Rule::welford_rounding, "welford_rounding", "an update of one accumulator is rounded"},
    {Rule::welford_division, "welford_division", "a difference is divided by k"},
    {Rule::welford_underflow, "welford_underflow", "an operation of an update underflows"},
    {Rule::welford_overflow, "welford_overflow",
     "nothing is claimed where the mean, the squares or the count of an update may overflow", kCondition},
    {Rule::merge_rounding, "merge_rounding", "a merge of parts of a row is rounded"},
    {Rule::merge_underflow, "merge_underflow",
     "an operation of a merge underflows, and is then multiplied by counts"},
    {Rule::merge_overflow, "merge_overflow",
     "nothing is claimed where n_A n_B, or a product by it, may overflow", kCondition},
    {Rule::transform_rounding, "transform_rounding",
     "the factor of a transform, and products by it, are rounded"},
    {Rule::transform_underflow, "transform_underflow", "a product by the factor of a transform underflows"},
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
