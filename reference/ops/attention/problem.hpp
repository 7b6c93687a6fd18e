// Attention as everything in this directory sees it: parsed attributes, geometry, which key a row sees, and
// K/V as streams of decoded numbers. What is true of the numbers stands in value/certified.hpp (the value),
// limits/detap.hpp (the limit that assumes no order) and limits/bounds.hpp (sharper limits).
//
//   x[i,j]   = cap(scale * sum_c q[i,c] k[j,c]) - slope * |i_abs - j|        (slope 0 without alibi)
//   cap(s)   = softcap * tanh(s / softcap),  or s where softcap = 0
//   Z[i]     = sum over visible j of exp(x[i,j])  +  exp(sink) where sinks=yes
//   p[i,j]   = exp(x[i,j]) / Z[i]
//   out[i,c] = sum over visible j of p[i,j] v[j,c];  0 where row i sees no key
//   i_abs    = length[b] - rows + i                                          (causal is aligned bottom-right)
//   scale    = the f64 number nearest to 1 / sqrt(d), or the attribute read as f64: that number in every
//            derivation
//
//   rotate=qkv   V is stored rotated in groups of 32 columns:  y[j] = H D v[j] / sqrt(32),
//                out[i] = D H (sum over visible j of p[i,j] y[j]) / sqrt(32)
//   rotate=qk    (and the q, k of qkv) both are stored rotated; H D / sqrt(32) is orthogonal, so q.k needs
//                nothing
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/op.hpp"

namespace assay {

// What the row of the op in ops.cpp points to: its attributes, contract keys, tensors and index tensors.
std::span<const KeySpec> attention_attributes();
std::span<const KeySpec> attention_contract();
std::vector<TensorSpec> attention_tensors(const Attributes& attributes);
void attention_indices(const Attributes& attributes, std::uint64_t seed, TensorSet& inputs);

// The contract keys, and what they assume of a kernel:
//   qk           accumulator or matrix unit of q.k
//   chunk        products per partial sum of q.k; partial sums are then added in f32 (chunk >= d: one level)
//   qk_block     a matrix unit's blocks hold at least so many products, all but the last of a partial sum; in
//                memory order too, where a level knows the steps of full blocks alone
//   pv_block     the same of the keys of p.v, all but the last of a partial sum, of a tile and of a page;
//                hidden keys, which are multiplied by 0, count
//   scores       format that the logits are rounded to, once, after the scale
//   q, convert   formats that q, and K and V, are converted to before anything else
//   v_inverse    row: V in tq3_0 enters PV in its rotated basis, scale times codebook value, and D H /
//                sqrt(32) is applied to the output row: the problem of rotate=qkv with these numbers for y
//   tile         keys per step of the online softmax: the running maximum changes, and the accumulators are
//                rescaled, at most once per tile; the row sum of a tile is formed in any order and added to
//                the running sum
//   exp_ulp      error of the kernel's exp in ulps of f32 (of a subnormal result: of 2^-149, or flushed to
//                0), for its own rounded argument; exp(0) is exactly 1, so that a maximum which does not rise
//                costs no error. The log that merges parts errs as much
//   tanh_ulp     error of the kernel's tanh in ulps of f32, under a soft cap; tanh(0) is 0
//   div_ulp      error of the final quotient, and of a part's: of a division, or of reciprocal and product
//   p            format of the weights that enter PV
//   p_shift      weights are multiplied by 2^p_shift before that rounding, the result divided by it (exact;
//                where it is no whole number, each is one rounding in f32, and level=detap judges)
//   denominator  row sum of the weights before (exact) or after (cast) the rounding to p
//   rowsum       accumulator of the row sum
//   pv           accumulator or matrix unit of p.v
//   promote      keys per partial sum of PV; partial sums are then added in f32
//   split        parts of the keys computed apart and merged in f32: at most so many
//   merge        once: every part is scaled to the largest maximum, or log-sum-exp, of all, be it divided by
//                its own sum already or not. states: running
//                maxima, sums and outputs are merged one after the other, in any order, each rise an exp of
//                its own. any: outputs that are divided already and log-sum-exps, of any base, one after the
//                other
//   part         most keys of a part where there are several, which bounds its rescales; without it a part
//                may have all keys
//   out          format of the result before it is stored in dtype
//   order        any         nothing is assumed beyond the above
//                tiles       tiles of `tile` keys, the first at key 0, in ascending order, a tile without a
//                            visible key skipped; every weight is relative to the running maximum, its own
//                            tile's keys included
//                descending  the same from the last tile to the first
//                sequential  tiles, and in them keys and the products of a dot, in ascending order
//   qk_order, pv_order  (order.hpp) how the terms of one partial sum (chunk, promote) are added; where PV
//                       runs through
//                one accumulator over tiles (no promote), how a tile's terms are added to it
//   rowsum_order any: every association of all keys' weights. Else how a tile's weights are added, before
//   their sum is added to
//                the running one; sequential and lanes:N
//                are 1 and N running sums over all tiles, added at the end (each thread of a fragment keeps
//                its own)
//   argument     rounded: exp's argument is the difference of a logit that was rounded and the maximum of
//                such; any: or one fused operation, S scale - f32(max S scale), of a rescale too where the
//                maximum rises (where it stays the factor is 1)
//   scaling      scores: the scale multiplies q.k. q: it multiplies q before, in f32. q_rounded: and the
//                product is rounded to q's format, as it is under a matrix unit, which takes no other. any:
//                scores or q, without that rounding
//   tiles        aligned: tiles begin at multiples of `tile` from key 0, whatever a window hides, and each
//                part of a split is a run of ceil(tiles / split) of a sequence's tiles, from key 0 on. any:
//                with the first key of a window, a page, or from the end
//   sink         last: the sink enters maximum and sum after all keys (of all parts). first: they begin as
//                the sink and 1, so that every weight is relative to it. any: either
//   lag          a running maximum is raised only by a logit that is above it by more than this: weights are
//                at most e^lag
//   weights      running: relative to the running maximum. shares: all weights are known first, and divided
//                by their sum (in f32, by div_ulp) before they are multiplied by 2^p_shift and rounded to p
//   empty        what a row that sees no key gives: zero, the mean of V, nan, or any number (hidden.hpp)
//   hidden       skipped: a key that a mask hides is not met. added: -Inf is added to its logit (hidden.hpp)
//   (Under scaling, tiles, sink, merge and weights the word `any`, a lag and shares are judged by
//   level=detap: bounds_problem.hpp.)
//   level        the sharpest derivation that may set the limit, of those that the declaration carries:
//                detap (assumes no order), detord, ca (cast-aware), emu (unit emulated, order=sequential
//                only); replay: the schedule says every bit (replayed.hpp)

enum class MaskKind : std::uint8_t { none, causal, window, random };
enum class RotateKind : std::uint8_t { none, qk, qkv };

struct AttentionGeometry {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, d = 0, dv = 0, rows = 1, length = 0, page = 0;
  std::int64_t window = 0;
  MaskKind mask = MaskKind::none;
  RotateKind rotate = RotateKind::none;
  double softcap = 0;  // 0: none
  double scale = 0;    // resolved, > 0
  bool sinks = false, alibi = false, ragged = false;
  std::string k_format, v_format, dtype;

  std::int64_t group() const { return heads / kv_heads; }  // q heads that share one kv head
  std::int64_t table_width() const { return page == 0 ? 0 : (length + page - 1) / page; }
  std::int64_t pages() const;  // of the pool: those in use and some that are not
};
// Throws InputError bad_value for what cannot be (heads not a multiple of kv_heads, page=0 table ...).
AttentionGeometry attention_geometry(const Attributes& attributes);

// The keys [first, last) that a row may see; the arbitrary mask, if any, thins them further.
struct KeyRange {
  std::int64_t first = 0, last = 0;
};

// One problem. Refers to `inputs`, which must outlive it. The constructor checks every shape and index, so
// that nothing afterwards can read out of bounds. Throws InputError (shape_mismatch, bad_value, bad_scale).
class AttentionProblem {
 public:
  AttentionProblem(const Attributes& attributes, const TensorSet& inputs);

  const AttentionGeometry& geometry() const { return geometry_; }
  std::int64_t length(std::int64_t b) const { return lengths_[static_cast<std::size_t>(b)]; }
  std::int64_t kv_head(std::int64_t head) const { return head * geometry_.kv_heads / geometry_.heads; }
  KeyRange range(std::int64_t b, std::int64_t row) const;
  // 0/1 per key, length `geometry().length`; nullptr when every key of the range is visible.
  const std::int8_t* mask_row(std::int64_t row) const {
    return mask_ == nullptr ? nullptr : mask_ + row * geometry_.length;
  }
  bool visible(std::int64_t b, std::int64_t row, std::int64_t key) const;
  std::int64_t position(std::int64_t b, std::int64_t row) const {
    return length(b) - geometry_.rows + row;
  }  // i_abs
  double slope(std::int64_t head) const {
    return slopes_.empty() ? 0.0 : slopes_[static_cast<std::size_t>(head)];
  }
  double sink(std::int64_t head) const {
    return sinks_.empty() ? 0.0 : sinks_[static_cast<std::size_t>(head)];
  }

  // q[b,row,head,:] as stored, exact. d numbers.
  std::span<const double> q(std::int64_t b, std::int64_t row, std::int64_t head) const;
  // Index in the output, of element 0 of (b,row,head).
  std::int64_t out_index(std::int64_t b, std::int64_t row, std::int64_t head) const {
    return ((b * geometry_.rows + row) * geometry_.heads + head) * geometry_.dv;
  }
  std::int64_t out_size() const { return geometry_.batch * geometry_.rows * geometry_.heads * geometry_.dv; }

  // The token of key j of sequence b in the K and V tensors: its index on their outer axis (pages resolved).
  std::int64_t token(std::int64_t b, std::int64_t key) const;
  // Keys [first, first + count) of one kv head as exact numbers, key-major: out[count][d], out[count][dv].
  // NaN and infinities as stored. (Correctly rounded for formats whose row says so.)
  void decode_k(std::int64_t b, std::int64_t kv_head, std::int64_t first, std::int64_t count,
                double* out) const;
  void decode_v(std::int64_t b, std::int64_t kv_head, std::int64_t first, std::int64_t count,
                double* out) const;
  // Tensor behind K or V, for readers of the raw codes.
  const Encoded& k() const { return *k_; }
  const Encoded& v() const { return *v_; }
  const std::vector<double>& all_q() const { return q_; }

  // Other operands in place of the given ones (conversions.hpp): q as many f32 numbers as before, K and V of
  // the same shapes in a format of their own.
  void replace_q(std::vector<double> q) { q_ = std::move(q); }
  void replace_kv(Encoded k, Encoded v);
  // V in tq3_0 becomes a V that is stored rotated (rotate=qkv): decode_v gives what stands in its blocks
  // before the inverse transform. Since D H / sqrt(32) is linear, the output is the same. Throws InputError
  // for any other V.
  void defer_inverse();

 private:
  void decode(const Encoded& tensor, std::int64_t width, std::int64_t b, std::int64_t kv_head,
              std::int64_t first, std::int64_t count, double* out, bool rotated) const;

  bool deferred_ = false;
  AttentionGeometry geometry_;
  const Encoded* k_ = nullptr;
  const Encoded* v_ = nullptr;
  std::shared_ptr<const Encoded> own_k_, own_v_;  // behind k_ and v_ once these were replaced
  const std::int8_t* mask_ = nullptr;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int32_t> table_;  // [batch][table_width]
  std::vector<double> q_, slopes_, sinks_;
};

// x <- D H x / sqrt(32) on groups of 32, D the tq3 signs: what rotate=qkv does to a row of n outputs. error:
// bounds of a kernel's |x' - x|, becomes that of its result computed in f32 (at most 8 roundings on the way
// of any term: gamma_8), +Inf where a partial sum may overflow. certificate: the same for x itself, in f64.
void unrotate(double* x, double* error, double* certificate, std::size_t n);

}  // namespace assay
