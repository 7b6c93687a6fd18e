// From q.k to weights relative to a power of two: steps 2 to 4 of certified.hpp for one row and one tile.
// Include inside a HWY foreach_target translation unit.
#if defined(ASSAY_ATTENTION_WEIGHTS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_ATTENTION_WEIGHTS_INL_HPP_
#undef ASSAY_ATTENTION_WEIGHTS_INL_HPP_
#else
#define ASSAY_ATTENTION_WEIGHTS_INL_HPP_
#endif

#include <limits>

#include "reference/ops/attention/value/dot-inl.hpp"
#include "reference/ops/attention/value/tanh-inl.hpp"
#include "reference/real/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using attention_detail::kBlock;
using attention_detail::Part;
using attention_detail::RowState;
using attention_detail::Tile;

// Multiplies the sums of a row by 2^exponent (<= 0): exact but for underflow.
inline void rescale(Part& part, int r, double exponent, bool moments) {
  const F64 d;
  const double factor = exponent < -1100 ? 0.0 : std::ldexp(1.0, static_cast<int>(exponent));
  const V64 f = hn::Set(d, factor);
  const auto scale = [&](double* p, std::size_t n) HWY_ATTR {
    for (std::size_t i = 0; i < n; i += kLanes) hn::Store(hn::Mul(hn::Load(d, p + i), f), d, p + i);
  };
  scale(part.l_high.get() + 8 * r, 8);
  scale(part.l_low.get() + 8 * r, 8);
  scale(part.acc_high.get() + r * part.v_ld, part.v_ld);
  scale(part.acc_low.get() + r * part.v_ld, part.v_ld);
  if (!moments) return;
  const auto shrink = static_cast<float>(factor);
  for (std::size_t c = 0; c < part.vf_ld; ++c) part.absolute[r * part.vf_ld + c] *= shrink;
  for (std::size_t c = 0; c < part.vf_ld; ++c) part.deviation[r * part.vf_ld + c] *= shrink;
}

struct Logits {
  double softcap;
  const double* s[attention_detail::kMaxSlices];
  int terms;             // of s that count; 2 and more: the sum of all
  const double* hidden;  // [64] negative where a key counts for nothing, or nullptr
};

// weight[64], weight_f[64] (when not nullptr) of row r; false when the row sees none of the tile's keys.
template <bool kCap, bool kAlibi>
HWY_INLINE bool weights_of(const Tile& tile, const Logits& in, Part& part, int r, double* x_high,
                           double* x_low, double* weight, float* weight_f) {
  const F64 d;
  RowState& row = part.state[static_cast<std::size_t>(r)];
  const V64 nothing = hn::Set(d, -std::numeric_limits<double>::infinity());
  V64 best = nothing;
  const int padded = (tile.keys + kLanes - 1) / kLanes * kLanes;
  for (int j = 0; j < padded; j += kLanes) {
    const V64 high = hn::Load(d, tile.factor_high.get() + j), low = hn::Load(d, tile.factor_low.get() + j);
    V64 s = hn::Load(d, in.s[0] + j), s_low = hn::Zero(d);
    if (in.terms > 1) {
      s = two_sum(s, hn::Load(d, in.s[1] + j), s_low);
      for (int t = 2; t < in.terms; ++t) s_low = hn::Add(s_low, hn::Load(d, in.s[t] + j));
    }
    V64 x = hn::Mul(s, high);
    V64 e = fused_mul_add(d, s, high, hn::Neg(x));
    e = hn::MulAdd(s, low, e);
    if (in.terms > 1) e = hn::MulAdd(s_low, high, e);
    if constexpr (kCap) soft_cap(d, in.softcap, x, e);
    if constexpr (kAlibi) {
      const V64 key = hn::Add(hn::Iota(d, 0), hn::Set(d, static_cast<double>(tile.first + j)));
      const V64 distance = hn::Abs(hn::Sub(hn::Set(d, row.position), key));
      V64 lost;
      x = two_sum(x, hn::Mul(hn::Set(d, -row.slope), distance), lost);
      e = hn::Add(e, lost);
    }
    if (in.hidden != nullptr) x = hn::IfThenElse(hn::Lt(hn::Load(d, in.hidden + j), hn::Zero(d)), nothing, x);
    hn::Store(x, d, x_high + j);
    hn::Store(e, d, x_low + j);
    best = hn::Max(best, x);
  }
  const double top = hn::GetLane(hn::MaxOfLanes(d, best));
  if (!(top > -std::numeric_limits<double>::infinity())) return false;
  row.largest = row.started ? std::max(row.largest, top) : top;
  const double wanted = std::ceil(top * exp_detail::kLog2E);
  if (!row.started || wanted > row.m) {
    if (row.started) rescale(part, r, row.m - wanted, weight_f != nullptr);
    row.m = wanted;
    row.started = true;
  }
  const double c = row.m * exp_detail::kLn2High;
  const double c_low = std::fma(row.m, exp_detail::kLn2High, -c) + row.m * exp_detail::kLn2Low;
  const V64 minus = hn::Set(d, -c), minus_low = hn::Set(d, -c_low);
  double* const l_high = part.l_high.get() + kSums * r;
  double* const l_low = part.l_low.get() + kSums * r;
  for (int j = 0; j < padded; j += kLanes) {
    V64 t, lost;
    V64 h = two_sum(hn::Load(d, x_high + j), minus, t);
    t = hn::Add(t, hn::Add(hn::Load(d, x_low + j), minus_low));
    const auto far = hn::Lt(h, hn::Set(d, -720.0));
    h = hn::IfThenElse(far, hn::Set(d, attention_detail::kFarBelow), h);
    t = hn::IfThenZeroElse(far, t);
    V64 rest;
    h = two_sum(h, t, rest);
    const V64 w = certified_exp(d, h, rest);
    hn::Store(w, d, weight + j);
    hn::Store(two_sum(hn::Load(d, l_high + j % kSums), w, lost), d, l_high + j % kSums);
    hn::Store(hn::Add(hn::Load(d, l_low + j % kSums), lost), d, l_low + j % kSums);
    if (weight_f != nullptr)
      hn::Store(hn::DemoteTo(hn::Rebind<float, F64>(), w), hn::Rebind<float, F64>(), weight_f + j);
  }
  return true;
}

// The same as everyone writes it: one rounding per operation, the maximum itself as reference.
inline bool plain_weights(const Tile& tile, const Logits& in, Part& part, int r, double* weight) {
  const F64 d;
  RowState& row = part.state[static_cast<std::size_t>(r)];
  V64 best = hn::Set(d, -std::numeric_limits<double>::infinity());
  const int padded = (tile.keys + kLanes - 1) / kLanes * kLanes;
  for (int j = 0; j < padded; j += kLanes) {
    V64 x = hn::Mul(hn::Load(d, in.s[0] + j), hn::Load(d, tile.factor_high.get() + j));
    if (in.hidden != nullptr)
      x = hn::IfThenElse(hn::Lt(hn::Load(d, in.hidden + j), hn::Zero(d)), hn::Set(d, -1e300), x);
    hn::Store(x, d, weight + j);
    best = hn::Max(best, x);
  }
  const double top = hn::GetLane(hn::MaxOfLanes(d, best));
  if (!(top > -1e299)) return false;
  if (!row.started || top > row.m) {
    if (row.started) {
      const V64 f = certified_exp(d, hn::Set(d, row.m - top), hn::Zero(d));
      double* l = part.l_high.get() + 8 * r;
      for (int i = 0; i < 8; i += kLanes) hn::Store(hn::Mul(hn::Load(d, l + i), f), d, l + i);
      double* a = part.acc_high.get() + r * part.v_ld;
      for (std::size_t i = 0; i < part.v_ld; i += kLanes) hn::Store(hn::Mul(hn::Load(d, a + i), f), d, a + i);
    }
    row.m = row.largest = top;
    row.started = true;
  }
  V64 l = hn::Load(d, part.l_high.get() + 8 * r);
  for (int j = 0; j < padded; j += kLanes) {
    const V64 w = certified_exp(d, hn::Sub(hn::Load(d, weight + j), hn::Set(d, row.m)), hn::Zero(d));
    hn::Store(w, d, weight + j);
    l = hn::Add(l, w);
  }
  hn::Store(l, d, part.l_high.get() + 8 * r);
  return true;
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
