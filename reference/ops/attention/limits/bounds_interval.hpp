// Intervals through the sums of an emulated kernel: if every operand lies in its interval, so does the
// register.
//
// A sum rounded to nearest or toward zero is a monotone function of each operand, so a scalar accumulator and
// an exact unit map interval ends to interval ends. A unit T(F, g, out) is monotone only while its alignment
// exponent M is fixed: a term that grows into a new binade coarsens the truncation of all the others. For
// each M that some choice of operands can give, the ends are evaluated with that M, and the hull over those M
// is taken; it contains every result, because the true result is the M-fixed (monotone) map at its own M.
// Units that cut partial results elsewhere (floor, floor_halves, pairwise_flush) get the interval of the
// exact sum, widened by StepModel::error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/ops/attention/limits/bounds_values.hpp"

namespace assay::attention_bounds {

// x, exact, to a narrow type: once, or to f32 first, as kernels do that add and multiply in f32.
inline Interval to_type(double low, double high, const Precision& type) {
  const auto of_f32 = [&](double x) {
    return round_to_precision(static_cast<double>(static_cast<float>(x)), type);
  };
  return {std::min(round_to_precision(low, type), of_f32(low)),
          std::max(round_to_precision(high, type), of_f32(high))};
}

struct IntervalColumns {
  std::vector<double> low, high;
  explicit IntervalColumns(std::size_t n) : low(n), high(n) {}
};

// o * a in f32 (or the unit's register, if sums chain through it), a >= 0.
// `is_read`: the unit takes it after that, and cuts it to its register.
void rescale_interval(IntervalColumns& o, Interval a, const Accumulator& pv, bool chained,
                      bool is_read = true);

class IntervalSum {
 public:
  IntervalSum(const Accumulator& how, const KeyValues& kv, const ValueFacts& facts, int p_emin);
  // o += p v over keys [first, last), chained through `to`; p are the operands as the accumulator takes them,
  // in [low, high], >= 0.
  void add(std::span<const double> p_low, std::span<const double> p_high, std::int64_t first,
           std::int64_t last, IntervalColumns& to);

 private:
  struct Keys {  // of one aligned sum
    std::int64_t index[64];
    int count = 0;
  };
  void aligned(const Keys& keys, int fraction_bits, std::span<const double> p_low,
               std::span<const double> p_high, IntervalColumns& to);
  void widened(std::span<const double> p_low, std::span<const double> p_high, std::int64_t first,
               std::int64_t last, IntervalColumns& to);
  void scalar(double p_low, double p_high, std::int64_t key, IntervalColumns& to);
  double with_exponent(const Keys& keys, int m, int fraction_bits, std::size_t c,
                       std::span<const double> p_low, std::span<const double> p_high, double start,
                       bool high) const;
  double to_register(std::int64_t sum, int quantum) const;

  Accumulator how_;
  StepModel model_;
  const KeyValues& kv_;
  const ValueFacts& facts_;
  int p_emin_;
  std::vector<int> m_low_, m_high_;
  std::vector<double> factor_;
  std::vector<std::int64_t> sum_low_, sum_high_;
};

}  // namespace assay::attention_bounds
