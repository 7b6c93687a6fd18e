#include "cases/studies/identify/attention_midpoints.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "reference/mix.hpp"

namespace assay {
namespace {

// Places of f32 about a midpoint, for columns in turn: sums of some hundred terms are off by the first,
// exponentials in few operations by the second.
constexpr std::array kPlaces = {4.0, 32.0};
constexpr std::int64_t kMostColumns = 1024;  // in all
constexpr std::int64_t kOfRow = 16;          // columns that show the last row, the one before it, and so on
constexpr std::int64_t kMostRows = 8;
constexpr std::int64_t kMostDraws = 1 << 13;  // for a column
constexpr double kLeast = 0x1p-13;            // outputs that are subnormal in f16 would have fewer bits

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

// Of a row of q, over their sum: of the largest they are rounded to so many bits, or not.
std::vector<double> weights_of(const AttentionLayout& l, std::optional<int> rounded_to, std::int64_t batch,
                               std::int64_t i, std::int64_t head, std::span<const float> q,
                               std::span<const float> k) {
  const std::int64_t kv_head = head / (l.heads / l.kv_heads);
  const auto row = q.subspan(place(((batch * l.rows + i) * l.heads + head) * l.d), place(l.d));
  std::vector<double> weights(place(l.keys));
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < l.keys; ++j) {
    const auto key = k.subspan(place(((batch * l.keys + j) * l.kv_heads + kv_head) * l.d), place(l.d));
    double logit = 0;
    for (std::size_t c = 0; c < row.size(); ++c)
      logit += static_cast<double>(row[c]) * static_cast<double>(key[c]);
    weights[place(j)] = logit * l.scale;
    most = std::max(most, weights[place(j)]);
  }
  for (double& w : weights) sum += w = std::exp(w - most);
  for (double& w : weights) {
    int exponent = 0;
    const double fraction = std::frexp(w, &exponent);
    if (rounded_to) w = std::ldexp(std::nearbyint(std::ldexp(fraction, *rounded_to)), exponent - *rounded_to);
    w /= sum;
  }
  return weights;
}

struct Output {
  double sum = 0, size = 0;  // of w v, and of w |v|
  Output with(double weight, double value) const {
    return {sum + weight * value, size + weight * std::abs(value)};
  }
  Output without(double weight, double value) const {
    return {sum - weight * value, size - weight * std::abs(value)};
  }
  // How far it is from a midpoint of the store, in places of f32 of the size.
  double distance(int stored_bits) const {
    int exponent = 0;
    const double scaled = std::ldexp(std::frexp(std::abs(sum), &exponent), stored_bits);
    const double from = std::abs(scaled - std::floor(scaled) - 0.5);
    return std::ldexp(from, exponent - stored_bits) / (size * 0x1p-24);
  }
};

struct Value {
  std::int64_t key = 0;
  double value = 0;
};
struct Values {
  std::array<Value, 2> list;
  std::size_t count = 0;
  std::span<const Value> all() const { return std::span(list).first(count); }
};

// Values that a column may take.
class Draws {
 public:
  Draws(std::uint64_t seed, int bits, std::span<const double> weights)
      : state_(seed), steps_(std::uint64_t{1} << (bits - 1)), weights_(weights) {}
  Values next(ColumnOfV column) {
    const std::uint64_t draw = next_mixed(state_);
    const double sign = (draw >> 15 & 1) != 0 ? -1 : 1;
    const double x = sign * (1 + static_cast<double>(draw % steps_) / static_cast<double>(steps_));
    if (column == ColumnOfV::pair) {
      const auto by = static_cast<int>(draw >> 16 & 7);
      return {{Value{0, x}, Value{1, std::ldexp((draw >> 20 & 1) != 0 ? -1.0 : 1.0, by)}}, 2};
    }
    const auto key = static_cast<std::int64_t>((draw >> 16) % weights_.size());
    // A key that weighs little has a large value, as far as all formats have such.
    const int larger = std::clamp(-std::ilogb(weights_[place(key)]), 0, kLargest);
    return {{Value{key, column == ColumnOfV::one_value ? std::ldexp(x, larger) : x}}, 1};
  }

 private:
  static constexpr int kLargest = 7;
  std::uint64_t state_, steps_;
  std::span<const double> weights_;
};

}  // namespace

void move_to_midpoints(std::uint64_t base, const AttentionLayout& l, ColumnOfV column, bool rounded,
                       std::span<const float> q, std::span<const float> k, std::span<float> v) {
  const std::int64_t group = l.heads / l.kv_heads;
  const std::int64_t columns = std::clamp<std::int64_t>(kMostColumns / (l.batch * l.kv_heads), 1, l.dv);
  const std::int64_t rows = std::min({l.rows, kMostRows, (columns + kOfRow - 1) / kOfRow});
  for (std::int64_t of = 0; of < l.batch * l.kv_heads; ++of) {
    const std::int64_t batch = of / l.kv_heads, kv_head = of % l.kv_heads;
    std::vector<std::vector<double>> weights;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t h = 0; h < group; ++h)
        weights.push_back(weights_of(l, rounded ? std::optional(l.stored_bits) : std::nullopt, batch,
                                     l.rows - 1 - i, kv_head * group + h, q, k));
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::vector<double>& w = weights[place(c / kOfRow % rows * group + c % group)];
      const double places = kPlaces[place(c / group % 2)];
      const auto value = [&](std::int64_t j) -> float& {
        return v[place(((batch * l.keys + j) * l.kv_heads + kv_head) * l.dv + c)];
      };
      Output whole;
      for (std::int64_t j = 0; j < l.keys; ++j) {
        if (column != ColumnOfV::drawn) value(j) = 0;
        whole = whole.with(w[place(j)], static_cast<double>(value(j)));
      }
      Draws draws(mix(base + static_cast<std::uint64_t>(of * l.dv + c)), l.v_bits, w);
      double nearest = std::numeric_limits<double>::infinity();
      Values kept;
      for (std::int64_t i = 0; i < kMostDraws && nearest > places; ++i) {
        const Values drawn = draws.next(column);
        Output moved = whole;
        for (const Value& d : drawn.all())
          moved = moved.without(w[place(d.key)], static_cast<double>(value(d.key)))
                      .with(w[place(d.key)], d.value);
        if (std::abs(moved.sum) < kLeast) continue;
        const double distance = moved.distance(l.stored_bits);
        if (distance < nearest) nearest = distance, kept = drawn;
      }
      for (const Value& d : kept.all()) value(d.key) = static_cast<float>(d.value);
    }
  }
}

}  // namespace assay
