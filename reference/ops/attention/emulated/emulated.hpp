// A correct flash-attention kernel, computed bit for bit in a declared arithmetic: what a backend without the
// hardware runs, and what every bound in bounds.hpp is tested against.
//
//   S_j  = q.k_j                    by `qk`: a matrix unit (chunk products per chain, chains added in f32),
//                                   or a scalar accumulator, products rounded, ascending order
//   z_j  = f32(S_j * f32(scale)),  or with a soft cap f32(cap * tanh(f32(S_j * f32(scale / cap)))), tanh as
//                                  exp below
//   x_j  = scores(f32(z_j + bias_j))
//   tiles of `tile` keys in ascending order; a tile without a visible key is skipped:
//     m' = max(m, max x_j)
//     a  = exp(f32(m - m'))         0 for the first tile
//     w_j = exp(f32(x_j - m'))
//     P_j = p(w_j * 2^p_shift)
//     l  = l * a + sum w_j          or sum of P_j 2^-p_shift when denominator=cast
//     o  = o * a + sum P_j v_j      by `pv`: a unit chained through o, or chains of `promote` keys from zero
//                                   added to o in f32, or a scalar accumulator
//   split > 1: the tiles are dealt to `split` runs of consecutive tiles; each gives
//     o_s   = o * (1/l)
//     lse_s = m + log l
//     e_s   = exp(f32(lse_s - max lse))
//   and then
//     out   = sum f32(e_s o_s) / sum e_s
//   out  = out_format(f32(f32(o * f32(1/l)) * f32(v_scale 2^-p_shift)));  a row that sees no key gives 0
//
// base2: every exp and log is of base two, as GPU kernels do it, and x_j = scores(f32(S_j * f32(scale log2
// e))); with a soft cap or a bias x_j = scores(f32(f32(z_j + bias_j) * f32(log2 e))).
// exp is nearest f32 moved by a fixed pseudo-random number of ulps that stays within exp_ulp; exp(0) = 1
// exactly, and results below 2^-126 are 0.
//
// A sink is one more logit, after the last key, with v = 0. Operands must be exact in the formats named: K
// and V as a unit takes them; per-tensor scales belong in `scale` and `v_scale`.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/contract.hpp"
#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {

struct AttentionArithmetic {
  std::string qk = "f32", pv = "f32", rowsum = "f32", p = "f32", scores = "f32", out = "f32";
  std::int64_t chunk = 0;    // products per chain of q.k; 0, or d and more: one chain
  std::int64_t promote = 0;  // keys per chain of p.v; 0, or tile and more: see `chained`
  std::int64_t tile = 64;
  std::int64_t split = 1;
  std::int64_t qk_block = 0,
               pv_block = 0;  // least products of a unit's block in an open order; 0: full blocks
  int p_shift = 0;
  double exp_ulp = 2, tanh_ulp = 4, div_ulp = 2;
  bool denominator_cast = false;
  bool sequential = true;   // false: order=any, only the order-free level may judge
  bool descending = false;  // tiles from the last to the first
  // Inside a tile; the emulator itself is sequential and rounds its logits.
  Order qk_order = Order::sequential, pv_order = Order::sequential, rowsum_order = Order::sequential;
  bool fused_argument = false;  // S scale - m scale may be one operation
  bool base2 = false;

  // From a parsed contract with the keys of attention_contract(); out=dtype means `dtype`.
  static AttentionArithmetic from(const Contract& contract, std::string_view dtype);
  // Throws InputError bad_value: a unit that does not take the operands, a tile or chain that is no multiple
  // of its g.
  void check(std::string_view q_format, std::string_view k_format, std::string_view v_format) const;
  // PV goes through the unit's own accumulator from tile to tile.
  bool chained() const { return promote == 0; }
};

// One head of K [keys, d] and V [keys, dv], row-major, exact in their formats ("f32": any float).
struct KeyValues {
  std::int64_t keys = 0, d = 0, dv = 0;
  std::span<const float> k, v;
  std::string k_format = "f32", v_format = "f32";
  double v_error = 0;  // relative, of each v that a kernel holds
};

struct QueryRow {
  std::span<const float> q;  // [d]
  std::string q_format = "f32";
  double scale = 1;    // of q.k, > 0: softmax scale times the scales of q and k
  double v_scale = 1;  // of the output
  double softcap = 0;
  double scale_error = 0;            // of a kernel's scale beside its roundings: a quantiser's own scale of q
  std::span<const float> bias = {};  // added to the logits (ALiBi); empty: none
  std::span<const std::uint8_t> visible = {};  // empty: all keys
  std::optional<float> sink = {};
  bool sees(std::int64_t j) const { return visible.empty() || visible[static_cast<std::size_t>(j)] != 0; }
};

// Points at which a test replaces one step of the kernel by a wrong one. The default is the correct step.
class AttentionSteps {
 public:
  virtual ~AttentionSteps() = default;
  virtual float initial_max() const { return -std::numeric_limits<float>::infinity(); }
  virtual int visits(std::int64_t /*tile*/) const { return 1; }
  virtual float logit(std::int64_t /*key*/, float x) const { return x; }
  virtual float weight(std::int64_t /*key*/, float w) const { return w; }         // before the cast, for PV
  virtual float weight_in_sum(std::int64_t /*key*/, float w) const { return w; }  // the same, for the row sum
  virtual float rescale_output(std::int64_t /*tile*/, float a) const { return a; }
  virtual float rescale_sum(std::int64_t /*tile*/, float a) const { return a; }
  virtual float split_weight(std::int64_t /*part*/, float e) const { return e; }
};

// exp of the emulated kernel (base e or 2), f32 in and out.
float emulated_exp(float t, bool base2, double exp_ulp);
float emulated_log(float l, bool base2);
float emulated_tanh(float t, double tanh_ulp);
// x_j from S_j: scale, soft cap, bias, rounding to `scores`.
class LogitModel {
 public:
  LogitModel(const AttentionArithmetic& how, const QueryRow& row);
  float operator()(float s, std::int64_t key) const;
  float of_sink(float sink) const;

 private:
  const ScalarFormat* scores_;  // nullptr: f32
  float scale_, cap_, log2e_;
  double tanh_ulp_;
  bool base2_;
  std::span<const float> bias_;
};

// K and V prepared once, any number of rows run. Refers to `kv`'s arrays.
class AttentionEmulator {
 public:
  AttentionEmulator(const AttentionArithmetic& how, const KeyValues& kv);
  ~AttentionEmulator();
  // out: [dv], values of the format `out`.
  void run(const QueryRow& row, std::span<float> out, const AttentionSteps& steps = AttentionSteps{}) const;
  // S_j of every key, as `qk` gives it.
  void scores(const QueryRow& row, std::span<float> s) const;
  const AttentionArithmetic& arithmetic() const { return how_; }
  const KeyValues& keys() const { return kv_; }

 private:
  struct Split;
  void sum_values(const PackedOperand* packed_p, std::span<const float> p, std::int64_t first,
                  std::int64_t last, std::span<float> o) const;
  void run_split(const QueryRow& row, const std::vector<float>& s, std::int64_t first_tile,
                 std::int64_t last_tile, bool with_sink, const AttentionSteps& steps, Split& result) const;

  AttentionArithmetic how_;
  KeyValues kv_;
  Accumulator qk_, pv_, rowsum_;
  const ScalarFormat* p_format_;  // nullptr: f32
  std::vector<float> v_columns_;  // [dv, keys]: a unit sums along the last axis
  std::unique_ptr<PackedOperand> packed_k_, packed_v_;
};

// The tiles [first, last) of part s of `split`.
struct TileRange {
  std::int64_t first, last;
};
TileRange split_range(std::int64_t tiles, std::int64_t split, std::int64_t part);
// The tiles of a part, the last of which has what is left, and how many parts hold tiles: of 5 tiles in 4
// parts 2 and 3. The last of these meets the sink. Without tiles one part.
inline std::int64_t tiles_of_part(std::int64_t tiles, std::int64_t split) {
  return (tiles + split - 1) / split;
}
inline std::int64_t parts_of(std::int64_t tiles, std::int64_t split) {
  const std::int64_t each = tiles_of_part(tiles, split);
  return each == 0 ? 1 : (tiles + each - 1) / each;
}

}  // namespace assay
