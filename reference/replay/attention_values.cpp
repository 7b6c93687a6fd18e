#include "reference/replay/attention_values.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "reference/replay/add_scaled.hpp"
#include "reference/replay/rounding.hpp"

namespace assay {
namespace {

float to_f16(float x) {
  static const Rounded f16("f16");
  return f16(x);
}

// What pv sums from zero, before it is added to o.
class OpenSum {
 public:
  OpenSum(const WeightedRows& block, std::vector<float>& o) : block_(block), o_(o), sum_(o.size(), 0.0f) {}

  void rescale(std::size_t at, float a) { sum_[at] *= a; }
  void add(const Tile& tile) {
    const std::int64_t promote = block_.how.promote;
    for (std::int64_t from = tile.from; from < tile.to; from += promote) {
      block_.chain(from, std::min(tile.to, from + promote), sum_.data());
      if (promote < block_.how.tile || ++tiles_ == promote / block_.how.tile) close();
    }
  }
  void close() {
    for (std::size_t i = 0; i < o_.size(); ++i) o_[i] += sum_[i];
    std::ranges::fill(sum_, 0.0f);
    tiles_ = 0;
  }
  bool open() const { return tiles_ > 0; }

 private:
  const WeightedRows& block_;
  std::vector<float>& o_;
  std::vector<float> sum_;
  std::int64_t tiles_ = 0;
};

}  // namespace

std::vector<std::vector<Tile>> parts_of(const AttentionSchedule& how, std::int64_t keys,
                                        std::int64_t origin) {
  const std::int64_t tiles = (keys - origin + how.tile - 1) / how.tile,
                     each = (tiles + how.split - 1) / how.split;
  std::vector<std::vector<Tile>> parts;
  std::size_t place = 0;
  for (std::int64_t p = 0; p < how.split; ++p) {
    const bool by_keys = how.part > 0;
    const std::int64_t begin = by_keys ? std::max(origin, p * how.part) : origin + p * each * how.tile;
    const std::int64_t end = std::min(keys, !by_keys             ? begin + each * how.tile
                                            : p + 1 == how.split ? keys
                                                                 : (p + 1) * how.part);
    std::vector<Tile> part;
    for (std::int64_t from = begin; from < end; from = part.back().to) {
      const std::int64_t whole = std::min(end, from + how.tile);
      const std::int64_t cut = how.cut > 0 ? (from / how.cut + 1) * how.cut : whole;
      part.push_back({from, std::min(whole, cut), place++});
    }
    if (how.descending) std::ranges::reverse(part);
    for (std::int64_t w = 0; w < how.deal; ++w) {
      std::vector<Tile> dealt;
      for (std::size_t t = static_cast<std::size_t>(w); t < part.size();
           t += static_cast<std::size_t>(how.deal))
        dealt.push_back(part[t]);
      parts.push_back(std::move(dealt));
    }
  }
  return parts;
}

namespace {

// A row's output so far and what is added to it: weights of keys from `key` on, times their values.
struct ValueSteps {
  const AttentionSchedule& how;
  const ReplayKeys& kv;
  const float* weights;
  float* o;
  std::vector<float>& sums;  // of eights

  std::size_t dv() const { return static_cast<std::size_t>(kv.dv); }
  void add(std::int64_t key, float* to) const {
    add_scaled(weights[key], kv.v.data() + key * kv.dv, to, dv(), how.fma);
  }
  void one(std::int64_t key) const {
    add(key, o);
    if (how.pv == "f16")
      for (std::size_t c = 0; c < dv(); ++c) o[c] = to_f16(o[c]);
  }
  void pair(std::int64_t key) const { add(key + 1, o), add(key, o); }
  void eight(std::int64_t key) const {
    sums.assign(3 * dv(), 0.0f);
    float *const odd = sums.data(), *const even = odd + dv(), *const last = even + dv();
    add(key + 6, o), add(key + 4, o);
    add(key + 7, last), add(key + 5, last);
    add(key + 2, even), add(key, even);
    add(key + 3, odd), add(key + 1, odd);
    for (std::size_t c = 0; c < dv(); ++c) o[c] = (o[c] + last[c]) + (even[c] + odd[c]);
  }
};

}  // namespace

void add_values(const AttentionSchedule& how, const ReplayKeys& kv, std::span<const float> weights,
                std::int64_t rows, std::int64_t from, std::int64_t to, float* out) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < rows; ++i) {
    const ValueSteps step{how, kv, weights.data() + i * kv.keys, out + i * kv.dv, sums};
    std::int64_t j = from;
    for (; how.value_step == ValueStep::pair && j + 2 <= to; j += 2) step.pair(j);
    for (; how.value_step == ValueStep::eight && j + 8 <= to; j += 8) step.eight(j);
    for (; j < to; ++j) step.one(j);
  }
}

std::vector<float> values_of(const WeightedRows& b, std::span<const Tile> tiles) {
  std::vector<float> o(static_cast<std::size_t>(b.rows * b.dv), 0.0f);
  std::vector<float> of_tile;
  const bool in_f16 = b.how.pv == "f16", promoted = b.how.promote > 0,
             chained = b.how.values == ValueChain::chained || promoted,
             carried = b.how.values == ValueChain::carried;
  std::optional<OpenSum> open;
  if (promoted) open.emplace(b, o);
  for (const Tile& tile : tiles) {
    if (!chained) of_tile.assign(o.size(), 0.0f);
    if (!chained) b.chain(tile.from, carried ? tile.from + 1 : tile.to, of_tile.data());
    for (std::int64_t i = 0; i < b.rows; ++i) {
      const float a = b.rescale[static_cast<std::size_t>(i) * b.tiles + tile.place];
      for (std::int64_t at = i * b.dv; at < (i + 1) * b.dv; ++at) {
        const auto c = static_cast<std::size_t>(at);
        const float rescaled = o[c] * a;
        if (chained)
          o[c] = in_f16 && a != 1 ? to_f16(rescaled) : rescaled;
        else if (carried || b.how.values_fma)
          o[c] = std::fma(o[c], a, of_tile[c]);
        else
          o[c] = rescaled + of_tile[c];
        if (open) open->rescale(c, a);
      }
    }
    if (open)
      open->add(tile);
    else if (chained || carried)
      b.chain(carried ? tile.from + 1 : tile.from, tile.to, o.data());
  }
  if (open && open->open()) open->close();
  return o;
}

}  // namespace assay
