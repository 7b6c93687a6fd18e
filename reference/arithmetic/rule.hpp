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
