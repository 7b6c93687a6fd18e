// What is asked of an attention kernel: logits and rows of V at a plain shape, and what the weights are that
// come of them.
#pragma once

#include <string>
#include <vector>

#include "cases/attribution/bench.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::attribution {

// A weight, or a factor, that is off by more is no matter of roundings: f16 and bf16 keep 1/128.
inline constexpr double kGross = 0.01;
// Columns of a plain shape's V, and its keys; with fewer keys the limits are a few roundings wide.
inline constexpr std::int64_t kColumns = 128;
inline constexpr std::int64_t kKeys = 103;

// What the weights that a one-hot V showed are beside those that they should be.
struct Weights {
  bool seen = false;       // there are rows to look at
  bool uniform = true;     // each row is off by one factor of its own
  bool gross = false;      // by more than a per cent
  bool missing = false;    // a key that has a weight has none
  bool extra = false;      // a key that has none has one
  bool at_edge = true;     // and only next to the border of what is visible
  bool other_row = false;  // a row is another row's, but for one factor
  bool kept_right = true;  // every key that has a weight has the one that it should
  bool exchanged = false;  // a row's weights are right, and at other keys; and so is every row that is wrong
  bool dead_rows = true;   // every bad element is in a row that sees nothing
  bool finite = true;
  double slope = 0;  // of log(got / truth) over log(truth), where that explains it
  bool sloped = false;
  std::vector<std::int64_t> keys;  // columns that are off
};

Weights look_at_weights(const Answer& a);
// The key that lies in a row of K and V.
std::int64_t key_of_row(const AttentionGeometry& g, const TensorSet& set, std::int64_t slot);
std::size_t columns_of(const Answer& a);  // of its output

enum class Logits {
  equal,
  first,
  first_of_few_bits,
  parts,
  rising,
  as_slopes,   // those that slopes add to equal ones, by q.k
  beyond_cap,  // from -4 to 4 of the softcap; without one, what it makes of them
  spread,
  spread_of_codes,
  spread_alike,
  low,
  steep,
  alone,         // the last key has all the weight
  first_at_last  // as first, by the last dimension
};
enum class Rows { one_hot, ones, many_bits };

class AttentionQuestions {
 public:
  explicit AttentionQuestions(Bench& bench)
      : g(attention_geometry(bench.the_case().attributes)), bench_(bench) {}

  // What the case has is left out as far as the kernel then takes the call. False when it takes none.
  bool find_plain();
  // From here on questions are put at the case's own shape, formats and masks, with `left_out` of it.
  void at_own_shape(std::vector<Change> left_out);
  bool own_shape() const { return own_shape_; }
  // One run at the plain shape, or at the case's own, with changes, under these logits and rows of V.
  Answer ask(const std::vector<Change>& changes, Logits logits, Rows rows);
  // Few keys; as many as have the kernel split them; and the case's own width of a head, which decides the
  // scale.
  static Change few_keys() { return {"len", "3"}; }
  Change parted_keys() const;
  Change own_width() const;
  bool stored_in_codes() const;  // K or V
  // Whether this operand, "k" or "v", has codes where questions are put: at the plain shape, since the kernel
  // takes no other.
  bool in_codes(std::string_view operand) const;
  // Whether every key that should have a weight has the same, whatever its logit.
  static bool all_alike(const Answer& one_hot);

  // Of the case; and of what the kernel declares at the plain shape.
  AttentionGeometry g;
  std::int64_t tile = 1, split = 1;
  bool casts_weights = false, converts_q = false;

 private:
  Bench& bench_;
  std::vector<Change> plain_;
  bool own_shape_ = false;
};

}  // namespace assay::attribution
