// What the attention bounds share: one row's logits with their errors, its tiles with their running maxima,
// and the error of one step of an accumulator. Notation and proofs: bounds.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/gamma.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay::attention_bounds {

inline constexpr double kU = 0x1p-24;      // of f32, to nearest
inline constexpr double kTiny = 0x1p-126;  // a result below may be flushed
inline constexpr int kNever = 1 << 14;     // exponent of the lowest set bit of zero: a multiple of everything

// floor(log2 |x|), x a normal double; -kNever for 0.
inline int exponent_of(double x) {
  const auto biased = static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff);
  return biased == 0 ? -kNever : biased - 1023;
}
// Exponent of the lowest set bit of |x|; kNever for 0.
inline int lattice_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = (bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52);
  return x == 0 ? kNever : exponent_of(x) - 52 + std::countr_zero(fraction);
}
// In p bits; below 2^emin a number has fewer, the last of which is 2^(emin - p + 1).
inline bool representable(double x, int p, int emin = -126) {
  return x == 0 || (lattice_of(x) > exponent_of(x) - p && lattice_of(x) > emin - p);
}

// How one accumulator errs per step: a block of a unit, or one product of a scalar accumulator.
struct StepModel {
  explicit StepModel(const Accumulator& how);

  enum class Kind : std::uint8_t { scalar, exact, aligned, split_unit, pairwise } kind = Kind::scalar;
  int group = 1;          // products per step
  int block = 1;          // the least of them, the last step apart, where the order is open
  int fraction_bits = 0;  // F, aligned and split_unit
  int extra_cuts = 0;     // cuts besides those of the g products and c: floors of partial results
  double rho = 0;         // relative error of the rounding into the register
  double eta = 0;         // its absolute error where the result underflows
  int precision = 24;     // p of the register
  int emin = -126;        // exponent of its smallest normal number: M is no less, whatever c is
  double inner_rho = 0x1p-23, inner_eta = 0x1p-126;  // split_unit: of the rounding of each half
  double overflow = 0;                               // largest finite number of the register
  double rescale = kU;  // relative error of o * a as the register holds it, when the sum chains through o

  // Of a kernel that declares no less than `declared` products to a block; 0: full ones.
  StepModel of_blocks(std::int64_t declared) const {
    StepModel r = *this;
    r.block = declared == 0 ? group : static_cast<int>(std::min<std::int64_t>(declared, group));
    return r;
  }
  std::int64_t steps(std::int64_t products) const { return (products + block - 1) / block; }
  // Where blocks may be short of the group, an order of the products does not say where they end.
  Order known(Order order) const { return order == Order::sequential && block < group ? Order::any : order; }

  // All magnitudes are upper bounds for the kernel's own numbers, not for ideal ones.
  struct Step {
    double head = 0;          // largest 2^(e_a + e_b) of the non-zero products
    double before = 0;        // |accumulator before|
    double after = 0;         // |exact sum of what the accumulator held and the products|
    double products = 0;      // sum of |products|
    double flushed = 0;       // sum of |products| with a subnormal operand
    int inexact = 0;          // products that are not known to be multiples of the quantum
    bool c_inexact = true;    // the same for the accumulator
    bool after_fits = false;  // the exact sum is known to be representable in the register
  };
  // The register holds sums of 2^shift p v, ours are of p v.
  void unscale(int shift) {
    overflow = std::ldexp(overflow, -shift), eta = std::ldexp(eta, -shift),
    inner_eta = std::ldexp(inner_eta, -shift);
    emin -= shift;
  }
  int quantum_exponent(const Step& step) const;  // log2 of the alignment quantum, at most
  double error(const Step& step) const;          // of the register after the step
  // Of any order: `steps` steps over `terms` products whose magnitudes sum to `products`; no partial sum
  // exceeds `partial`. E <- (1 + r_i) E + b_i, where step i cuts c_i terms and the sum of all c_i is at most
  // terms + steps (1 + extra).
  struct Whole {
    double partial = 0, products = 0, head = 0, flushed = 0;
    std::int64_t steps = 0, terms = 0;
    double height = 0;  // additions that one term goes through at most, scalar accumulators
  };
  double worst(const Whole& whole) const;
  // Every product is a multiple of 2^lattice: nothing can be rounded in any order.
  bool never_rounds(double products, double head, int lattice) const;
};

// Of a scalar format: spacing facts of its rounding to nearest.
struct FormatModel {
  explicit FormatModel(std::string_view name);
  bool exact = true;            // f32: no rounding is modelled
  double u = 0;                 // half a unit in the last place of 1
  double half_spacing_min = 0;  // half the spacing of subnormals
  int emin = -126;
  double max_finite = 0;
  const ScalarFormat* format = nullptr;
  double half_ulp(double x) const;  // largest rounding error of a number of magnitude at most x
  double round(double x) const { return format == nullptr ? x : round_to(*format, x); }
};
int emin_of(std::string_view format);  // exponent of the smallest normal number

struct Tile {
  std::int64_t first, last;  // keys
  bool any = false;          // has a visible key; all else is meaningless if not
  bool first_of_split = false;
  bool may_change = false;  // the kernel's running maximum may rise here (not: be set for the first time)
  // Tiles of the same split after this one that may_change, the sink included.
  std::int64_t changes_after = 0;
  double top = 0;    // exact running maximum of the logits, this tile included
  double error = 0;  // |kernel's running maximum - top| in the common frame
};
struct Part {  // one of the `split` runs of tiles
  std::int64_t first_tile, last_tile;
  bool any = false;
  bool sink = false;         // the sink is added at its end
  double top = 0;            // of its logits (and the sink's)
  double error = 0;          // largest tile error
  double reach = 0;          // largest magnitude of a running maximum
  std::int64_t changes = 0;  // tiles that may_change
};

struct RowLogits {
  std::vector<double> s, ds;  // S_j and the kernel's error of it
  std::vector<double> x, e;   // X_j and the kernel's error of it in the common frame
  std::vector<double> w;      // exp(x - top), 0 where not visible
  std::vector<double> theta;  // relative error of the kernel's weight j
  std::vector<Tile> tiles;
  std::vector<Part> parts;
  double top = 0, sum = 0;  // sum of w and the sink
  double weight_error = 0;  // sum of w theta and the flushed weights
  double sink_weight = 0, sink_theta = 0;
  bool any = false;
  bool all_equal = false;   // every visible S_j is the same number, known exactly; no sink
  double largest_tiny = 0;  // absolute error of one weight by flushing
};

struct Score {
  double s, ds;
};
// S_j exactly or to within a few u(f64), and the error of the declared accumulator. The smallest normal
// exponents are those of the operands' formats.
Score score(const StepModel& step, std::span<const float> q, const float* k, int q_emin, int k_emin,
            std::int64_t chunk, Order order);

// Levels differ in ds only: order-free, or by the declared order (by inspection where it is sequential).
enum class ScoreError : std::uint8_t { order_free, ordered };
// behind: what is rounded to `scores` is known to be the logit with its cap and bias. computed: every S_j
// as the kernel has it; empty: none.
RowLogits row_logits(const AttentionArithmetic& how, const KeyValues& kv, const QueryRow& row,
                     ScoreError error, bool behind, std::span<const float> computed = {});

// The weight of key j relative to its tile's maximum, as the kernel has it: an interval.
struct Interval {
  double low, high;
};
Interval tile_weight(const AttentionArithmetic& how, const RowLogits& row, const Tile& tile, std::int64_t j);

// A fused argument S scale - f32(m scale) errs by the rounding of m scale, which does not telescope over
// tiles: the m that it is rescaled to and the m that it is rescaled from next are rounded apart. So each rise
// errs by it anew.
double fused_error(const AttentionArithmetic& how, double top, const Part& part);
// Sum over the row of what the denominator l adds: relative error, order-free or running.
double denominator_error(const AttentionArithmetic& how, const RowLogits& row, bool ordered);
// What merging the parts adds to the weights of a part, relative.
double merge_error(const AttentionArithmetic& how, const RowLogits& row, const Part& part);

// Largest relative difference between the kernel's rescaling of a partial sum of `tile` (nullptr: of any tile
// of the part) and exp(top of the tile - top of the part).
double rescale_drift(const AttentionArithmetic& how, const RowLogits& row, const Part& part,
                     const Tile* tile);

double exp_error(const AttentionArithmetic& how);  // eps_exp

}  // namespace assay::attention_bounds
