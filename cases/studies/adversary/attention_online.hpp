// What an attention kernel makes of the logits of a row: weights relative to a running maximum, tile after
// tile, rescaled where it rises, the parts of a split merged, the sink; or, in two passes, shares.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "cases/studies/adversary/attention_sums.hpp"

namespace assay::adversary {

// The logits of a row and its values, [keys] and [keys, dv]; a hidden key counts as a place alone.
struct AttentionRowKeys {
  const std::vector<double>& x;
  const std::vector<std::uint8_t>& seen;
  const std::vector<double>& v;
  std::int64_t first = 0;  // that a row may see
};

class AttentionOnline {
 public:
  AttentionOnline(const Problem& p, const AttentionSums& sums);

  // The exponents are of base 2, and log2 e is in the scale of the logits.
  bool folds() const { return folds_; }
  // The outputs of a row before the scale of V, of `size` keys to a part. sink: its logit, or nullptr.
  std::vector<double> outputs(const AttentionRowKeys& keys, std::int64_t size, std::size_t dv,
                              const double* sink) const;

 private:
  struct State {
    double max = -kInf, sum = 0;
    std::vector<double> out;
    bool any = false;
    bool is_divided = false;  // nothing is left to divide
  };
  double exp_of(double a, double b, std::int64_t j) const;
  double factor(double from, double to, std::int64_t j) const;
  double log_of(double l, std::int64_t j) const;
  double cast(double w) const;
  double without_shift(double o) const;
  State without_shift(State s) const;
  void rescale(State& s, double max, std::int64_t j) const;
  void take_tile(State& s, const AttentionRowKeys& keys, std::int64_t first, std::int64_t last,
                 bool ends) const;
  State part_of(State s, const AttentionRowKeys& keys, std::int64_t first, std::int64_t last) const;
  std::vector<std::int64_t> borders(const AttentionRowKeys& keys, std::int64_t first,
                                    std::int64_t last) const;
  State merged(const std::vector<State>& parts, bool is_last) const;  // is_last: no sink comes after
  State weighed(const std::vector<State>& parts) const;
  State merged_by_states(State a, const State& b) const;
  State merged_by_logs(const State& a, const State& b) const;
  State merged_at_once(std::vector<State> parts) const;
  State divided(const State& s, std::int64_t j) const;
  void add_sink(State& s, double sink, bool in_register) const;
  std::vector<double> shares(const AttentionRowKeys& keys, std::size_t dv, const double* sink) const;
  std::vector<double> quotients(const State& s) const;

  const Problem& p_;
  const AttentionSums& sums_;
  const Arithmetic& f32_;
  Sides sides_;
  bool folds_;
  double shift_;  // 2^p_shift
  mutable std::map<double, int> exp_sides_, log_sides_;
};

}  // namespace assay::adversary
