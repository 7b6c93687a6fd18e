// The online softmax of one row, tile by tile: a part of the replay of fused attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "reference/replay/attention_schedule.hpp"
#include "reference/replay/exponentials.hpp"
#include "reference/replay/fold.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
inline constexpr double kLog2E = 1.4426950408889634;

using Exp = float (*)(float);
inline float nearest_exp(float x) {
  const double y = std::exp(static_cast<double>(x));
  return y >= 0x1p-126 ? static_cast<float>(y) : 0.0f;
}
inline Exp exp_of(Exponential e) {
  if (e == Exponential::nearest) return nearest_exp;
  if (e >= Exponential::libm) return row_exp(to_string(e));
  return e == Exponential::ex2 ? ex2_approx_ftz : e == Exponential::exp2f ? exp2_subnormal : cuda_expf;
}

inline float libm_tanh(float x) { return std::tanh(x); }
inline Exp tanh_of(CapStep cap) {
  return cap == CapStep::series9 ? series9_tanh : cap == CapStep::cuda_tanhf ? cuda_tanhf : libm_tanh;
}

// The softmax of one row: weights and rescalings, tile by tile.
class AttentionRow {
 public:
  AttentionRow(const AttentionSchedule& how, double scale)
      : how_(how),
        exp_(exp_of(how.exp)),
        rescale_exp_(how.rescale_libm ? exp_of(Exponential::libm) : exp_),
        tanh_(tanh_of(how.cap)),
        scale_(static_cast<float>(scale)),
        lanes_(static_cast<std::size_t>(how.lanes), 0.0f),
        fold_(how.fold, how.lanes) {
    set_query_scale(1);
  }

  void start() {
    top = kMinusInfinity, sum = 0;
    std::fill(lanes_.begin(), lanes_.end(), 0.0f);
  }
  // A logit of argument=scaled with the steps of its own that it has: softcap (0: none), then slope |i - j|.
  float logit(float s, float softcap, float slope, float distance) const {
    const bool to_base_two = (how_.bias || how_.cap != CapStep::none) && !natural(how_.exp);
    float x = s * (to_base_two ? factor_ : constant_);
    if (softcap > 0) x = softcap * tanh_(x / softcap);
    if (how_.bias) x -= slope * distance;
    return to_base_two ? x * static_cast<float>(kLog2E) : x;
  }
  // The divisor of a row of q that was scaled joins the scale.
  void set_query_scale(float divisor) {
    const double base = natural(how_.exp) ? 1 : kLog2E;
    factor_ = scale_ * divisor;
    constant_ = how_.constant_double ? static_cast<float>(static_cast<double>(factor_) * base)
                                     : factor_ * static_cast<float>(base);
  }
  // The maximum of a tile as the row's is compared with it, of numbers that `argument` has scaled.
  float largest(std::span<const float> s, Argument argument) const {
    float most = kMinusInfinity;
    for (const float x : s) most = std::max(most, x);
    if (argument == Argument::scaled_fma_max) return most * static_cast<float>(kLog2E);
    return argument == Argument::fma_max ? most * constant_ : most;
  }
  // s: the tile's S, or its logits with argument=scaled; -inf where the mask hides a key; becomes the
  // weights. Returns a. argument: how_'s, but for tiles that have one of their own; hold: the maximum stays
  // (slack).
  float tile(std::span<float> s, Argument argument, bool hold) {
    const float c = constant_;
    float now = top;
    if (!hold) {
      for (float& x : s) {
        if (argument == Argument::scaled_twice || argument == Argument::scaled_fma ||
            argument == Argument::scaled_fma_max)
          x *= factor_;
        if (argument == Argument::scaled_twice) x *= static_cast<float>(kLog2E);
      }
      now = std::max(now, largest(s, argument));
    }
    const float old = top;
    top = now;
    const float m = now == kMinusInfinity ? 0.0f : now;
    const float e = static_cast<float>(kLog2E);
    const float mc = argument == Argument::scaled_fma ? m * e : m * c;
    float a = 0;
    if (old != kMinusInfinity) {
      const float k = argument == Argument::scaled_fma ? e : c;
      a = rescale_exp_(compares_arguments(argument)       ? old - m
                       : how_.rescale == Rescale::sub_mul ? (old - m) * k
                       : argument == Argument::mul_sub    ? old * k - mc
                                                          : std::fma(old, k, -mc));
    }
    const std::size_t by_own_exp = how_.tail == SumTail::nearest ? whole_passes(s.size()) : s.size();
    for (std::size_t j = 0; j < s.size(); ++j) {
      float& x = s[j];
      switch (argument) {
        case Argument::fma:
          x = std::fma(x, c, -mc);
          break;
        case Argument::mul_sub: {
          const float p = x * c;
          x = p - mc;
          break;
        }
        case Argument::scaled:
        case Argument::scaled_twice:
          x = x - m;
          break;
        case Argument::sub_mul: {
          const float d = x - m;
          x = d * c;
          break;
        }
        case Argument::scaled_fma:
          x = std::fma(x, e, -mc);
          break;
        case Argument::fma_max:
          x = std::fma(x, c, -m);
          break;
        case Argument::scaled_fma_max:
          x = std::fma(x, e, -m);
          break;
      }
      x = j < by_own_exp ? exp_(x) : static_cast<float>(std::exp(static_cast<double>(x)));
    }
    add(s, a);
    return a;
  }
  // Folds the lanes where they were kept apart.
  void finish() {
    if (how_.sums == RowSums::thread || how_.sums == RowSums::lane) sum = fold_(lanes_);
  }

  float top = kMinusInfinity, sum = 0;

 private:
  // Of `keys` those that whole passes over the lanes take.
  std::size_t whole_passes(std::size_t keys) const {
    const std::size_t width = how_.tail_width > 0 ? static_cast<std::size_t>(how_.tail_width)
                                                  : lanes_.size() * static_cast<std::size_t>(how_.pack);
    return keys - keys % width;
  }
  // Adds a range of keys to the lanes, each of which is rescaled along with its first addition; 1 leaves it
  // as it is.
  void add_to_lanes(std::span<const float> w, float a) {
    const auto pack = static_cast<std::size_t>(how_.pack), stride = lanes_.size() * pack;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      float l = lanes_[lane];
      const std::size_t first = lane * pack;
      if (first < w.size() && how_.sum_fma) {
        l = std::fma(l, a, w[first]);
      } else {
        l *= a;
        if (first < w.size()) l += w[first];
      }
      for (std::size_t j = first; j < w.size(); j += stride)
        for (std::size_t i = j == first ? j + 1 : j; i < std::min(j + pack, w.size()); ++i) l += w[i];
      lanes_[lane] = l;
    }
  }
  void add(std::span<const float> w, float a) {
    if (how_.sums == RowSums::thread) return add_to_lanes(w, a);
    if (how_.sums == RowSums::lane) {
      before_ = lanes_;
      std::fill(lanes_.begin(), lanes_.end(), 0.0f);
      add_to_lanes(w, 1);
      for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = rescaled(before_[i], a, lanes_[i]);
      return;
    }
    if (how_.sums == RowSums::vectors) {
      sum *= a;
      sum = static_cast<float>(static_cast<double>(sum) + in_vectors(w));
      return;
    }
    const auto range = static_cast<std::size_t>(how_.tile / how_.warps);
    for (std::size_t first = 0; first < static_cast<std::size_t>(how_.tile); first += range) {
      std::fill(lanes_.begin(), lanes_.end(), 0.0f);
      std::span<const float> behind;
      if (first < w.size()) {
        const std::span<const float> here = w.subspan(first, std::min(range, w.size() - first));
        const std::size_t in_lanes = how_.tail == SumTail::lanes ? here.size() : whole_passes(here.size());
        add_to_lanes(here.first(in_lanes), 1);
        behind = here.subspan(in_lanes);
      }
      float part = fold_(lanes_);
      for (const float x : behind) part += x;
      sum = rescaled(sum, first == 0 ? a : 1, part);
    }
  }
  // l a + part.
  float rescaled(float l, float a, float part) const {
    if (how_.sum_fma) return std::fma(l, a, part);
    l *= a;
    return l + part;
  }
  // What is left behind the last whole vector is added one by one.
  double in_vectors(std::span<const float> w) {
    double total = 0;
    const std::size_t width = lanes_.size(), whole = w.size() / width * width;
    for (std::size_t first = 0; first < whole; first += width) {
      std::copy_n(w.begin() + static_cast<std::ptrdiff_t>(first), width, lanes_.begin());
      total += static_cast<double>(fold_(lanes_));
    }
    for (const float x : w.subspan(whole)) total += static_cast<double>(x);
    return total;
  }

  const AttentionSchedule& how_;
  Exp exp_, rescale_exp_, tanh_;
  float scale_, factor_ = 0, constant_ = 0;
  std::vector<float> lanes_, before_;
  LaneFold fold_;
};

// The weights of a row, tile by tile, under its mask.
struct Weights {
  const AttentionSchedule& how;
  AttentionRow& row;
  std::vector<float> seen;
  std::vector<std::size_t> places;

  // w: the tile's logits, which become its weights; hidden keys weigh 0. Returns what the row is rescaled by.
  template <typename Sees>
  float tile(std::span<float> w, const Sees& sees, Argument argument) {
    if (!how.closed) {
      for (std::size_t j = 0; j < w.size(); ++j)
        if (!sees(static_cast<std::int64_t>(j))) w[j] = kMinusInfinity;
      return row.tile(w, argument, false);
    }
    seen.clear(), places.clear();
    for (std::size_t j = 0; j < w.size(); ++j)
      if (sees(static_cast<std::int64_t>(j))) seen.push_back(w[j]), places.push_back(j);
    std::ranges::fill(w, 0.0f);
    if (seen.empty()) return 1;
    const float a = row.tile(seen, argument, false);
    for (std::size_t i = 0; i < seen.size(); ++i) w[places[i]] = seen[i];
    return a;
  }
};

// merge=weights: the row after all of its parts, whose o and l are weighed by exp(m_s - m).
struct RowEnd {
  float top = kMinusInfinity, sum = 0;

  // Returns the part's weight; `top` is the largest of all parts.
  float add(float part_top, float part_sum, bool first, Exp exp) {
    const float m = top == kMinusInfinity ? 0.0f : top;
    const float w = part_top == m ? 1.0f : exp(part_top - m);
    if (first)
      sum = part_sum * w;
    else if (part_sum != 0)
      sum += w * part_sum;
    return w;
  }
  // One more logit; returns what o is multiplied by. A row without a key stays one.
  float sink(float s, Exp exp) {
    float a = 1;
    if (sum == 0 && top == kMinusInfinity) return a;
    if (s > top) {
      a = exp(top - s);
      sum *= a;
      top = s;
    }
    sum += exp(s - top);
    return a;
  }
};

}  // namespace assay
