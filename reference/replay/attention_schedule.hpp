// The schedule of a fused attention kernel: everything that decides the bits of its output, as one line of
// text.
//
//   qk=hopper_bf16 pv=hopper_bf16 p=bf16 tile=128 order=descending argument=mul_sub lanes=4 pack=2 out=bf16
//
// One head's keys are cut into tiles of `tile` keys, taken in `order`. With c the constant of the exponent
// (`constant`), for a tile
//   S_j  = q.k_j by a chain of `qk`
//   m'   = max(m, max S_j)                     over the keys that the mask leaves
//   w_j  = exp(S_j c - m' c)                   in the operations that `argument` names
//   a    = exp((m - m') c)                     likewise (`rescale`)
//   l    = l a + w_j                           each of `lanes` partial sums by itself, key j of the tile to
//                                              lane (j / pack) mod lanes, folded at the end (sums=thread) or in each tile (sums=tile);
//                                              sums=lane: a lane's weights of a tile are added from 0, then to its l a;
//                                              sums=vectors: each `lanes` keys of a tile are folded in f32,
//                                              these are added in f64, and l a, rounded, joins them before
//                                              the sum is rounded
//   o    = o a + sum p(w_j) v_j                by chains of `pv` through o (values=chained) or from zero in
//                                              each tile; values=carried: o = fma(o, a, w_0 v_0), then the
//                                              tile's other keys through o (pv=f32)
// and at the end out(o / l), the quotient as `quotient` says: approx is o rcp(l), by the multi-function unit.
//
// qk=f32 and pv=f32 are sums in f32 (qk=f16: products and sums are rounded to f16), of products that are
// rounded first or, with fma=yes, not: of q.k in dot_lanes partial sums folded as dot_fold says, of p.v key
// after key; pv=f16: o is rounded to f16 after each key and each rescaling. rescale_exp=libm: a by the C
// library's expf, whatever the weights' exponential is.
//
// dot_head=N, dot_tail=refold, dot_step=pair: of q.k as head, tail=refold and order=swapped of a product's
// schedule (schedule.hpp).
//
// tail=after, tail=nearest (sums=tile, one warp): keys behind the last whole tail_width of a tile (0: lanes
// pack) are added one by one to the folded lanes; nearest: their weights are e^x rounded once.
//
// value_step (pv=f32): one, key after key; pair, of two neighbouring keys the second first (VDPBF16PS);
// eight, of eight neighbouring keys
//   o = (((o + w_6 v_6) + w_4 v_4) + (w_7 v_7 + w_5 v_5)) + ((w_2 v_2 + w_0 v_0) + (w_3 v_3 + w_1 v_1))
// in fused steps, what is left behind eights key after key.
//
// fused=N: an instruction of the units takes N products, fewer than the unit can fuse: as if the others were
// 0.
//
// argument=scaled may have two steps more, between the scale and the maximum: cap=libm, x = cap tanhf(x /
// cap) by the C library (softcap; cap=series9: exponentials.hpp; cap=cuda_tanhf: special_functions.hpp), and
// bias=subtract, x = x - slope |i - j| (alibi); with an exponential of base two and either, x = S scale first
// and the last step is x = x log2 e. sink=last adds a logit s at the very end (not with merge=logs): with s >
// m first l and o times expf(m - s) and m = s, then l = l + expf(s - m), by the C library; sink=own: by the
// schedule's exponential, of base e; sink=exp2f: by CUDA's exp2f, of s log2 e.
//
// dot_block=N: of q.k N neighbouring products are one exact sum, which is rounded to f32 and added to the sum
// so far (dot_lanes=1). q=q8_0: blocks of 32 are divided by max |q| / 127, by a product with its reciprocal,
// rounded to nearest even, and multiplied by that step in f16. q=f16, q=bf16: q is rounded to the format
// first (qk=f32). q=e4m3fn: a row of q is divided by max |q| / 448 (1 where that is 0) and rounded to the
// format; the divisor joins the scale of its S (not with merge=logs). p_shift=N: weights times 2^N are
// rounded to p, and the quotient times 2^-N. promote=N: pv sums N keys from zero, which are then added to o
// in f32; N divides the tile, or is a multiple of it and the open sum is rescaled as o is.
//
// cut=N: tiles begin anew at each multiple of N keys, too.
// origin=N: tiles begin at the first key that the first of N neighbouring rows sees, not at key 0;
// origin_rows=group: of N rows of all heads of a group, those of one position after each other.
// origin_at=tile: at the tile of that key, of tiles that begin at key 0. closed=yes: keys that the mask hides
// take no place among the lanes.
//
// split > 1: tiles are dealt to parts of ceil(tiles / split) consecutive ones. Each gives o_s = o / l in f32
// and L_s = fma(m, scale, __logf(l)); then L = logf(sum expf(L_s - max)) + max, the sum by `merge_lanes`
// lanes folded as `merge_fold` says, and
//   out = out_format(sum of fma(expf(L_s - L), o_s, .)), first to last
// merge=weights: w_s = e^(m_s - max m) by the exponential of the rescaling, 1 where they are equal;
//   l = sum w_s l_s, o = sum w_s o_s, first to last, and o / l.
// merge=lanes: w_s = e^(m_s - max m) by the schedule's exponential; l = the rounded products w_s l_s, part s
// in lane s mod merge_lanes,
//   folded as merge_fold says; o = fma(w_s, o_s, .) in merge_groups lanes likewise, added first to last; and
//   o / l.
// merge=log2: m is to base two; a part gives o_s = out(o / l) and L_s = m + lg2.approx(l). Part s goes to
// group s mod merge_groups, which
//   takes its parts first to last: m' = max(m, L_s), l = fma(l, 2^(m - m'), 2^(L_s - m')), o = fma(o, 2^(m -
//   m'), o_s 2^(L_s - m')). Several groups then are parts, which one group takes likewise; and o / l.
// part=N: parts of N keys instead, whose tiles begin with the part. merge_exp=exp2f: the exponential of
// merge=lanes. deal=N: a part's tiles are dealt to N in turn, each with m, l and o of its own; these are
// added first to last, times e^(m_n - m), 1 where
//   they are equal. deal_merge=online: m' = max(m, m_n), l = fma(l, e^(m - m'), l_n e^(m_n - m')), and o
//   likewise.
//
// slack=N: rows are the heads of a group at one position; m stays until a tile has a logit above m + N in
// some row of slack_rows neighbouring ones; then all of these have m' as above. edge=scaled: a tile some of
// whose places are before the first key that is seen or behind the last has argument=scaled.
// own=scaled or scaled_twice: rows at own_rows neighbouring positions are served at a time, and tiles from
// the first of these positions on (under a causal mask those of the diagonal) have that argument.
// kv_scale=head: products take the codes of K and V; the scale of a head's K joins that of its S (in front of
// q's divisor), and o / l is multiplied by that of its V, times 2^-p_shift. Not with merge=logs or log2.
// unrotate: the row of o / l is in the basis of the 32-point transform and is transformed back, by stages of
// neighbours first (ascending) or of halves first, then a factor and signs (butterflies.hpp).
// dot_rows=N: of the neighbouring keys of a tile that a row sees each N are served together, as above; those
// that are left have left_lanes sums (every second one of them left_second) folded as left_fold says, of
// which whole vectors of left_vector columns behind the last pass take the first; left_folded=W: columns
// behind the last pass as tail=folded:W of a product's schedule, and left_head=N as its head and
// head_at=apart. dot_run=N: an instruction of 16 products of q.k takes four neighbours of each of four
// neighbouring runs of N columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reference/arithmetic/keys.hpp"

namespace assay {

enum class Argument : std::uint8_t {
  fma,             // fma(S, c, -(m c))
  mul_sub,         // S c - m c, three roundings
  scaled,          // x = S c, m of those; x - m
  sub_mul,         // (S - m) c
  scaled_twice,    // x = S scale log2 e, two roundings, m of those; x - m
  scaled_fma,      // z = S scale, m of those; fma(z, log2 e, -(m log2 e))
  fma_max,         // x = S, m = max(S c) rounded; fma(S, c, -m)
  scaled_fma_max,  // z = S scale, m = max(z log2 e) rounded; fma(z, log2 e, -m)
};
// Whether maxima are of the exponent's own arguments, and the old maximum's is a difference of two.
constexpr bool compares_arguments(Argument a) {
  return a == Argument::scaled || a == Argument::scaled_twice || a == Argument::fma_max ||
         a == Argument::scaled_fma_max;
}
enum class OwnTiles : std::uint8_t { same, scaled, scaled_twice };
enum class Exponential : std::uint8_t {
  ex2,  // special_functions.hpp
  exp2f,
  expf,
  nearest,  // e^x rounded once, 0 below 2^-126: what the emulated backend computes
  libm,     // exponentials.hpp
  taylor7,
  taylor7_mul,
  sleef,
  degree5,
  arm,
  series9,
  degree3,
};
constexpr bool natural(Exponential e) { return e >= Exponential::expf; }  // base e
std::string_view to_string(Exponential e);
enum class Rescale : std::uint8_t { sub_mul, as_argument };
enum class RowSums : std::uint8_t { thread, tile, vectors, lane };
enum class ValueChain : std::uint8_t { chained, tile, carried };
enum class ValueStep : std::uint8_t { one, pair, eight };
enum class SumTail : std::uint8_t { lanes, after, nearest };
enum class Merge : std::uint8_t { logs, weights, lanes, log2 };
enum class SinkStep : std::uint8_t { none, last, exp2f, own };
enum class CapStep : std::uint8_t { none, libm, series9, cuda_tanhf };
enum class Unrotate : std::uint8_t { none, ascending, descending };
enum class Quotient : std::uint8_t { reciprocal, division, approx };

struct AttentionSchedule {
  std::string qk = "hopper_bf16", pv = "hopper_bf16", p = "bf16", out = "bf16";
  std::int64_t tile = 64;
  bool descending = false;
  Argument argument = Argument::fma;
  bool constant_double = true;  // c = f32(scale * log2 e) from the product in double; no: of two f32
  Exponential exp = Exponential::exp2f;
  Rescale rescale = Rescale::sub_mul;
  RowSums sums = RowSums::thread;
  bool sum_fma = true;  // l a + w_0 in one rounding
  std::int64_t warps =
      1;  // sums=tile: ranges of a tile's keys that are summed by themselves, then added to l in turn
  std::int64_t lanes = 4, pack = 2;
  std::string fold = "halving";
  ValueChain values = ValueChain::chained;
  Quotient quotient = Quotient::reciprocal;
  std::int64_t split = 1;
  std::int64_t merge_lanes = 32;
  Merge merge = Merge::logs;
  std::int64_t part = 0;                                    // keys; 0: by tiles
  std::int64_t cut = 0;                                     // keys; 0: none
  std::int64_t dot_lanes = 1, dot_pack = 1, dot_block = 1;  // qk=f32
  std::string dot_fold = "halving";
  bool fma = true;         // qk=f32, pv=f32
  bool values_fma = true;  // values=tile: o a plus the tile's sum in one rounding
  bool rescale_libm = false;
  CapStep cap = CapStep::none;
  bool bias = false;  // a step for alibi
  SinkStep sink = SinkStep::none;
  std::int64_t origin = 0;    // rows that share the first key of their tiles; 0: key 0
  bool origin_group = false;  // these rows are of all heads of a group
  bool origin_tile = false;   // tiles begin with that key's tile
  bool closed = false;
  std::string merge_fold = "halving";
  std::int64_t merge_groups = 1;  // merge=lanes: partial sums of o; merge=log2: of all
  bool merge_exp2f = false;       // merge=lanes
  std::int64_t deal = 1;          // of a part's tiles
  bool deal_online = false;
  std::int64_t slack = 0, slack_rows = 8;
  bool edge_scaled = false;
  OwnTiles own = OwnTiles::same;
  std::int64_t own_rows = 64;
  std::int64_t dot_run = 4;
  std::int64_t dot_rows = 1, left_lanes = 1, left_vector = 0;  // qk=f32
  std::int64_t left_second = 0, left_folded = 0, left_head = 0;
  std::string left_fold = "halving";
  std::string q = "none";  // format that q is rounded to
  std::int64_t p_shift = 0;
  std::int64_t fused = 0;    // products of one instruction; 0: as many as the unit fuses
  bool head_scales = false;  // of K and V, beside their codes
  Unrotate unrotate = Unrotate::none;
  std::int64_t promote = 0;  // keys that pv sums before they are added to o in f32; 0: all
  std::int64_t dot_head = 0;
  bool dot_refold = false, dot_pairs = false;
  SumTail tail = SumTail::lanes;
  std::int64_t tail_width = 0;
  ValueStep value_step = ValueStep::one;
  bool operator==(const AttentionSchedule&) const = default;
};

// Whether qk or pv names a matrix unit.
bool sums_in_a_unit(std::string_view products);

std::span<const KeySpec> attention_schedule_keys();
// Keys that are left out have their defaults. Throws InputError unknown_name or bad_value.
AttentionSchedule parse_attention_schedule(std::string_view text);
// Canonical: keys in the table's order, those at their defaults left out, but for what every kernel is asked
// first: qk, pv, p, out, tile.
std::string print_schedule(const AttentionSchedule& schedule);
// Every key.
std::string spell_out(const AttentionSchedule& schedule);

}  // namespace assay
