// One part of the work of certified.hpp: some rows, some keys, every target that Highway offers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/attention/value/certified_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/ops/attention/value/certified_process.cpp"
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "reference/ops/attention/value/dot-inl.hpp"
#include "reference/ops/attention/value/sums-inl.hpp"
#include "reference/ops/attention/value/tile-inl.hpp"
#include "reference/ops/attention/value/weights-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
using namespace attention_detail;

// What a row may do with a tile: nothing, everything, or a mask.
struct Sight {
  bool any, all;
};

// Why a key counts for nothing: the row may not see it, or its logit is -Inf.
constexpr double kHidden = -1, kWeightless = -2;

inline Sight sight_of(const RowState& row, const Tile& tile, double* hidden) {
  const std::int64_t end = tile.first + tile.keys;
  if (row.range.first >= end || row.range.last <= tile.first) return {false, false};
  const bool whole = row.range.first <= tile.first && row.range.last >= end && row.mask == nullptr;
  if (whole && tile.keys == kBlock) return {true, true};
  bool any = false;
  for (int j = 0; j < kBlock; ++j) {
    const std::int64_t key = tile.first + j;
    const bool sees = j < tile.keys && key >= row.range.first && key < row.range.last &&
                      (row.mask == nullptr || row.mask[key] != 0);
    hidden[j] = sees ? 0.0 : kHidden;
    any |= sees;
  }
  return {any, false};
}

// Keys and values that are not finite, as one row meets them: `hidden` gains the keys of logit -Inf.
inline void meet_specials(const Tile& tile, const double* q, std::size_t d, std::size_t dv, bool capped,
                          Part& part, int r, double* hidden) {
  RowState& row = part.state[static_cast<std::size_t>(r)];
  for (std::size_t i = 0; i < tile.k_special.size();) {
    const int key = tile.k_special[i].key;
    double extra = 0;  // the elements that were replaced by 0 decide: the others are finite
    for (; i < tile.k_special.size() && tile.k_special[i].key == key; ++i)
      extra += q[static_cast<std::size_t>(tile.k_special[i].column)] * tile.k_special[i].value;
    if (hidden[key] < 0) continue;
    if (row.unclaimed) continue;  // its q holds an infinity and stands as zeros here, which make a NaN of Inf
    if (std::isnan(extra) || (extra > 0 && !capped))
      row.poisoned = true;
    else if (capped)
      row.unclaimed = true;
    else
      hidden[key] = kWeightless;
  }
  for (const Tile::Special& s : tile.v_special) {
    if (hidden[s.key] == kHidden) continue;
    if (part.specials.empty()) part.specials.assign(static_cast<std::size_t>(part.rows) * dv, 0);
    part.specials[static_cast<std::size_t>(r) * dv + static_cast<std::size_t>(s.column)] |=
        hidden[s.key] == kWeightless ? kSawWeightless
        : std::isnan(s.value)        ? kSawNan
        : s.value > 0                ? kSawPlus
                                     : kSawMinus;
  }
  (void)d;
}

inline double key_scale(const Source& s, const AttentionProblem& p, std::int64_t token,
                        std::int64_t kv_head) {
  if (s.scales == nullptr) return 1.0;
  const std::int64_t heads = p.geometry().kv_heads;
  const std::int64_t index = s.axis == ScaleAxis::head    ? kv_head
                             : s.axis == ScaleAxis::token ? token
                             : s.axis == ScaleAxis::row   ? token * heads + kv_head
                                                          : 0;
  float value;
  std::memcpy(&value, s.scales + index * 4, 4);
  return value;
}

// Replaces what is not finite by 0 and writes it down, from the numbers themselves.
inline void set_specials_aside(double* tile, std::size_t ld, const double* exact, int keys, std::size_t width,
                               std::vector<Tile::Special>& specials) {
  for (int j = 0; j < keys; ++j)
    for (std::size_t i = 0; i < width; ++i) {
      const double x = exact[static_cast<std::size_t>(j) * width + i];
      if (std::isfinite(x)) continue;
      specials.push_back({j, static_cast<std::int64_t>(i), x});
      tile[static_cast<std::size_t>(j) * ld + i] = 0;
    }
}

inline void load_tile(const AttentionProblem& p, const Source& ks, const Source& vs, std::int64_t b,
                      std::int64_t h, std::int64_t first, int keys, bool moments, Scratch& scratch,
                      Part& part) {
  Tile& t = scratch.tile;
  const AttentionGeometry& g = p.geometry();
  const auto d = static_cast<std::size_t>(g.d), dv = static_cast<std::size_t>(g.dv);
  t.first = first;
  t.keys = keys;
  t.k_special.clear();
  t.v_special.clear();
  const std::size_t k_pad = (d + kPad - 1) / kPad * kPad, v_pad = part.v_ld;
  bool k_finite = true, v_finite = true;
  double k_max = 0, norm = 0, v_max = 0;
  const auto rows_of = [&](const Source& s, auto decode) -> const double* {
    if (s.codes != Codes::other) return nullptr;
    scratch.row_decode.ensure(kBlock * std::max(d, dv));
    (p.*decode)(b, h, first, keys, scratch.row_decode.get());
    return scratch.row_decode.get();
  };
  const double* k_rows = rows_of(ks, &AttentionProblem::decode_k);
  for (int j = 0; j < keys; ++j) {
    const std::int64_t token = p.token(b, first + j);
    const std::byte* src = k_rows != nullptr
                               ? reinterpret_cast<const std::byte*>(k_rows + static_cast<std::size_t>(j) * d)
                               : ks.bytes + (token * g.kv_heads + h) * g.d * ks.element_bytes;
    double* dst = t.k.get() + static_cast<std::size_t>(j) * t.k_ld;
    const double scale = ks.factor * key_scale(ks, p, token, h);
    RowFacts f;
    if (moments || ks.decode_error > 0)
      f = decode_any<true>(ks.codes, src, d, k_pad, 1.0, dst);
    else
      f = decode_any<false>(ks.codes, src, d, k_pad, 1.0, dst);
    k_finite &= f.finite;
    k_max = std::max(k_max, f.largest);
    norm = std::max(norm, f.squares * scale * scale);
    const double high = g.scale * scale;
    t.factor_high[j] = high;
    t.factor_low[j] = std::fma(g.scale, scale, -high);
  }
  for (int j = keys; j < (keys + kPad - 1) / kPad * kPad; ++j) {
    std::fill_n(t.k.get() + static_cast<std::size_t>(j) * t.k_ld, k_pad, 0.0);
    t.factor_high[j] = t.factor_low[j] = 0;
  }
  if (!k_finite) {
    std::vector<double> exact(static_cast<std::size_t>(keys) * d);
    p.decode_k(b, h, first, keys, exact.data());
    set_specials_aside(t.k.get(), t.k_ld, exact.data(), keys, d, t.k_special);
    k_max = norm = 0;
    for (int j = 0; j < keys; ++j) {
      double squares = 0;
      for (std::size_t i = 0; i < d; ++i) {
        const double x = t.k[static_cast<std::size_t>(j) * t.k_ld + i];
        k_max = std::max(k_max, std::fabs(x));
        squares += x * x;
      }
      const double scale = t.factor_high[j] / g.scale;
      norm = std::max(norm, squares * scale * scale);
    }
  }
  t.k_max = k_max;
  t.k_norm = std::sqrt(norm) * (1 + 0x1p-30);
  t.k_lsb = ks.code_lsb;
  t.k_lsb_known = ks.code_max > 0 || ks.codes == Codes::f16;

  const double* v_rows = rows_of(vs, &AttentionProblem::decode_v);
  for (int j = 0; j < keys; ++j) {
    const std::int64_t token = p.token(b, first + j);
    const std::byte* src = v_rows != nullptr
                               ? reinterpret_cast<const std::byte*>(v_rows + static_cast<std::size_t>(j) * dv)
                               : vs.bytes + (token * g.kv_heads + h) * g.dv * vs.element_bytes;
    const RowFacts f = decode_any<false>(vs.codes, src, dv, v_pad, vs.factor * key_scale(vs, p, token, h),
                                         t.v.get() + static_cast<std::size_t>(j) * t.v_ld);
    v_finite &= f.finite;
    v_max = std::max(v_max, f.largest);
  }
  if (!v_finite) {
    std::vector<double> exact(static_cast<std::size_t>(keys) * dv);
    p.decode_v(b, h, first, keys, exact.data());
    set_specials_aside(t.v.get(), t.v_ld, exact.data(), keys, dv, t.v_special);
    v_max = 0;
    for (int j = 0; j < keys; ++j)
      for (std::size_t i = 0; i < dv; ++i)
        v_max = std::max(v_max, std::fabs(t.v[static_cast<std::size_t>(j) * t.v_ld + i]));
  }
  part.v_max = std::max(part.v_max, v_max);
  if (!moments) return;
  if (!part.has_centre) {  // any number will do; the mean of the first keys makes the deviations small
    for (std::size_t c = 0; c < part.v_ld; ++c) {
      double sum = 0;
      for (int j = 0; j < keys; ++j) sum += t.v[static_cast<std::size_t>(j) * t.v_ld + c];
      part.centre[c] = sum / keys;
    }
    part.has_centre = true;
  }
  moment_inputs(t, part.centre.get(), part.v_ld);
}

// The sums q.k of the active rows into scratch.s; terms[i]: how many of them make up the sum of row i
// (certified.hpp, step 1). Rows are sorted by what they need: one exact sum, exact slices, pairs.
inline void multiply(const Tile& t, Scratch& scratch, const int* active, int count, std::size_t d, bool plain,
                     Part& part, int* terms) {
  Queries& q = scratch.queries;
  const std::size_t width = (d + kPad - 1) / kPad * kPad;
  const double* in[kMaxRows];
  double* out[kMaxRows];
  const double k_log = t.k_max > 0 ? std::log2(t.k_max) + 0x1p-40 : -1000;
  // Do sums of `bits` (Queries) stay exact? First by what the format guarantees, then by looking at the keys,
  // at most twice: `known` is a power of two of which all are multiples, `refused` one of which they are not.
  int known = t.k_lsb_known ? t.k_lsb : -100000, refused = 100000;
  const auto exact = [&](double bits) {
    const auto needed = static_cast<int>(std::ceil(std::max(bits + k_log - 53, k_log - 51)));
    if (needed <= known || t.k_max == 0) return true;
    if (needed >= refused) return false;
    if (multiples_of(needed, t.k.get(), t.k_ld, t.keys, width)) {
      known = needed;
      return true;
    }
    refused = needed;
    return false;
  };
  int waiting[kMaxRows];
  int whole = 0, left = 0;
  for (int i = 0; i < count; ++i) {
    if (plain || exact(q.bits[static_cast<std::size_t>(active[i])])) {
      in[whole] = q.q.get() + static_cast<std::size_t>(active[i]) * q.ld;
      out[whole++] = scratch.s[0].get() + i * kBlock;
      terms[i] = 1;
    } else {
      waiting[left++] = i;
    }
  }
  if (whole > 0) dot_tile(in, out, whole, t.k.get(), t.k_ld, t.keys, width);
  if (left == 0) return;
  const bool sliced = q.slices > 0;
  for (int s = 0; s < kMaxSlices && sliced; ++s) {
    int some = 0;
    for (int w = 0; w < left; ++w) {
      const auto r = static_cast<std::size_t>(active[waiting[w]]);
      if (s >= q.row_slices[r] || !exact(q.slice_bits[r])) continue;
      in[some] = q.slice[s].get() + r * q.ld;
      out[some++] = scratch.s[s].get() + waiting[w] * kBlock;
    }
    if (some > 0) dot_tile(in, out, some, t.k.get(), t.k_ld, t.keys, width);
  }
  for (int w = 0; w < left; ++w) {
    const int i = waiting[w];
    const auto r = static_cast<std::size_t>(active[i]);
    if (sliced && exact(q.slice_bits[r])) {
      terms[i] = q.row_slices[r];
      continue;
    }
    dot_pairs(q.q.get() + r * q.ld, t.k.get(), t.k_ld, t.keys, width, scratch.s[0].get() + i * kBlock,
              scratch.s[1].get() + i * kBlock);
    part.state[r].delta_pair = 1;
    terms[i] = 2;
  }
}

void process_part(const AttentionProblem& p, const Source& ks, const Source& vs, std::int64_t b,
                  std::int64_t kv_head, KeyRange keys, const CertifiedOptions& options, Scratch& scratch,
                  Part& part) {
  const AttentionGeometry& g = p.geometry();
  const auto d = static_cast<std::size_t>(g.d), dv = static_cast<std::size_t>(g.dv);
  Tile& t = scratch.tile;
  const bool moments = options.moments && !options.plain;
  t.k_ld = (d + kPad - 1) / kPad * kPad + kPad;
  t.v_ld = part.v_ld + kPad;  // not a multiple of a power of two: neighbouring keys in different cache sets
  t.vf_ld = part.vf_ld + 2 * kPad;
  t.k.ensure(kBlock * t.k_ld);
  t.factor_high.ensure(kBlock);
  t.factor_low.ensure(kBlock);
  t.v.ensure(kBlock * t.v_ld);
  if (moments) {
    t.v_abs.ensure(kBlock * t.vf_ld);
    t.v_dev.ensure(kBlock * t.vf_ld);
    t.v_sum.ensure(t.vf_ld);
  }
  for (auto& s : scratch.s) s.ensure(kMaxRows * kBlock);
  scratch.x_high.ensure(kBlock);
  scratch.x_low.ensure(kBlock);
  scratch.weight.ensure(kMaxRows * kBlock);
  scratch.weight_f.ensure(kMaxRows * kBlock);
  const bool capped = g.softcap > 0;

  for (std::int64_t first = keys.first; first < keys.last;) {
    const auto n = static_cast<int>(std::min<std::int64_t>(kBlock - first % kBlock, keys.last - first));
    int active[kMaxRows];
    int count = 0;
    for (int r = 0; r < part.rows; ++r) {
      const KeyRange range = part.state[static_cast<std::size_t>(r)].range;
      if (range.first < first + n && range.last > first) active[count++] = r;
    }
    if (count == 0) {
      first += n;
      continue;
    }
    load_tile(p, ks, vs, b, kv_head, first, n, moments, scratch, part);
    int terms[kMaxRows];
    multiply(t, scratch, active, count, d, options.plain, part, terms);

    const double* weights[kMaxRows];
    const float* weights_f[kMaxRows];
    double* high[kMaxRows];
    double* low[kMaxRows];
    float* absolute[kMaxRows];
    float* deviation[kMaxRows];
    int used = 0;
    for (int i = 0; i < count; ++i) {
      const int r = active[i];
      RowState& row = part.state[static_cast<std::size_t>(r)];
      alignas(64) double hidden[kBlock];
      const Sight sight = sight_of(row, t, hidden);
      if (!sight.any) continue;
      bool masked = !sight.all;
      if (!t.k_special.empty() || !t.v_special.empty()) {
        if (!masked) std::fill_n(hidden, kBlock, 0.0);
        masked = true;
        meet_specials(t, scratch.queries.q.get() + static_cast<std::size_t>(r) * scratch.queries.ld, d, dv,
                      capped, part, r, hidden);
      }
      row.keys += masked ? std::count(hidden, hidden + n, 0.0) : n;
      row.k_norm = std::max(row.k_norm, t.k_norm);
      Logits in{g.softcap, {}, terms[i], masked ? hidden : nullptr};
      for (int s = 0; s < terms[i]; ++s) in.s[s] = scratch.s[s].get() + i * kBlock;
      double* w = scratch.weight.get() + i * kBlock;
      float* wf = moments ? scratch.weight_f.get() + i * kBlock : nullptr;
      double* xh = scratch.x_high.get();
      double* xl = scratch.x_low.get();
      const bool some = options.plain ? plain_weights(t, in, part, r, w)
                        : capped      ? (g.alibi ? weights_of<true, true>(t, in, part, r, xh, xl, w, wf)
                                                 : weights_of<true, false>(t, in, part, r, xh, xl, w, wf))
                                      : (g.alibi ? weights_of<false, true>(t, in, part, r, xh, xl, w, wf)
                                                 : weights_of<false, false>(t, in, part, r, xh, xl, w, wf));
      if (!some) continue;
      weights[used] = w;
      weights_f[used] = wf;
      high[used] = part.acc_high.get() + static_cast<std::size_t>(r) * part.v_ld;
      low[used] = part.acc_low.get() + static_cast<std::size_t>(r) * part.v_ld;
      if (moments) {
        absolute[used] = part.absolute.get() + static_cast<std::size_t>(r) * part.vf_ld;
        deviation[used] = part.deviation.get() + static_cast<std::size_t>(r) * part.vf_ld;
        float* sum = part.key_sum.get() + static_cast<std::size_t>(r) * part.vf_ld;
        for (std::size_t c = 0; c < part.vf_ld; ++c) sum[c] += t.v_sum[c];
      }
      ++used;
    }
    if (options.plain)
      weighted_tile<false>(weights, used, t.v.get(), t.v_ld, n, part.v_ld, high, low);
    else
      weighted_tile<true>(weights, used, t.v.get(), t.v_ld, n, part.v_ld, high, low);
    if (moments)
      moment_tile(weights_f, used, t.v_abs.get(), t.v_dev.get(), t.vf_ld, n, part.vf_ld, absolute, deviation);
    first += n;
  }
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(process_part);
namespace attention_detail {
void process(const AttentionProblem& p, const Source& k, const Source& v, std::int64_t b,
             std::int64_t kv_head, KeyRange keys, const CertifiedOptions& options, Scratch& scratch,
             Part& part) {
  HWY_DYNAMIC_DISPATCH(process_part)(p, k, v, b, kv_head, keys, options, scratch, part);
}
}  // namespace attention_detail
}  // namespace assay
#endif
