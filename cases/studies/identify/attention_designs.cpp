#include "cases/studies/identify/attention_designs.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "cases/studies/identify/attention_midpoints.hpp"

namespace assay {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
// Seven bits between 1 and 2: a number of any format of 8 significant bits.
float one_to_two(std::uint64_t x) { return 1 + static_cast<float>(x >> 57) * 0x1p-7f; }

float& at(std::span<float> x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }

// Each column of V keeps one key.
void keep_one_value(std::uint64_t base, const AttentionLayout& l, std::span<float> v) {
  const std::int64_t columns = l.kv_heads * l.dv;
  for (std::int64_t of = 0; of < l.batch * columns; ++of) {
    const std::uint64_t draw = mixed(base ^ mixed(static_cast<std::uint64_t>(of) * 0x10003U));
    const auto kept = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(l.keys));
    for (std::int64_t j = 0; j < l.keys; ++j)
      at(v, (of / columns * l.keys + j) * columns + of % columns) = j == kept ? one_to_two(mixed(draw)) : 0;
  }
}

// Half of the columns are paired at random: those of a pair are equal in q, and opposite in k.
void cancel(std::uint64_t base, const AttentionLayout& l, std::span<float> q, std::span<float> k) {
  constexpr float kOfQuery = 32, kOfKey = 4096;  // products of 2^17 to 2^19, sums that drop all below 2^-4
  std::vector<std::int64_t> columns(static_cast<std::size_t>(l.d));
  for (std::int64_t c = 0; c < l.d; ++c) columns[static_cast<std::size_t>(c)] = c;
  for (std::uint64_t c = columns.size(); c > 1; --c) std::swap(columns[c - 1], columns[mixed(base + c) % c]);
  const auto paired = [&](std::span<float> x, std::int64_t rows, float size, float opposite) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::size_t p = 0; p + 1 < columns.size() / 2; p += 2) {
        const float y =
            size * one_to_two(mixed(base ^ mixed(static_cast<std::uint64_t>(row) * 0x10007U + p)));
        at(x, row * l.d + columns[p]) = y, at(x, row * l.d + columns[p + 1]) = opposite * y;
      }
  };
  paired(q, l.batch * l.rows * l.heads, kOfQuery, 1), paired(k, l.batch * l.keys * l.kv_heads, kOfKey, -1);
}

// Each row of q keeps one element, of 4 to 8.
template <typename Draw>
void keep_one_element(std::uint64_t base, const AttentionLayout& l, std::span<float> q, const Draw& of) {
  constexpr float kElement = 4;
  for (std::int64_t row = 0; row < l.batch * l.rows * l.heads; ++row) {
    const std::uint64_t draw = mixed(base + static_cast<std::uint64_t>(row));
    const auto kept = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(l.d));
    for (std::int64_t c = 0; c < l.d; ++c)
      at(q, row * l.d + c) = c != kept ? 0 : kElement * one_to_two(of(draw, static_cast<std::uint64_t>(c)));
  }
}

constexpr float kHidden =
    -60000;  // times q, which is at least 4: below every logit of a pair by more than f32's exponentials reach

// Keys 0 and 1 weigh, and each column of V has one of them.
void weigh_two(std::uint64_t base, const AttentionLayout& l, std::span<float> k, std::span<float> v) {
  for (std::int64_t token = 0; token < l.batch * l.keys * l.kv_heads; ++token) {
    const std::int64_t j = token / l.kv_heads % l.keys;
    const auto of_token = static_cast<std::uint64_t>(token);
    for (std::int64_t c = 0; c < l.d; ++c) {
      const std::uint64_t draw = mixed(base ^ mixed(of_token * 0x10001U + static_cast<std::uint64_t>(c)));
      const float depth = static_cast<float>(std::int64_t{1} << (draw % 5));
      at(k, token * l.d + c) = j == 0   ? one_to_two(draw)
                               : j == 1 ? -depth * one_to_two(mixed(draw))
                                        : kHidden;
    }
    for (std::int64_t c = 0; c < l.dv; ++c)
      at(v, token * l.dv + c) =
          j == c % 2 ? one_to_two(mixed(base + of_token * 0x777U + static_cast<std::uint64_t>(c))) : 0;
  }
}

// The second of two weights is about 2^-n, n = 1, 2 or 3, and columns of V take 1, and -2^n of it: of a
// difference of two exact products a store keeps bits that the weight itself has no room for.
void weigh_a_difference(std::uint64_t base, const AttentionLayout& l, std::span<float> q, std::span<float> k,
                        std::span<float> v) {
  constexpr std::int64_t kHalvings = 3;
  constexpr double kLn2 = 0.6931471805599453, kBits = 256;
  const auto of_column = [&](std::uint64_t c) { return mixed(base + 0x5555U + c); };
  keep_one_element(base, l, q, [&](std::uint64_t, std::uint64_t c) { return of_column(c); });
  for (std::int64_t token = 0; token < l.batch * l.keys * l.kv_heads; ++token) {
    const std::int64_t j = token / l.kv_heads % l.keys;
    for (std::int64_t c = 0; c < l.d; ++c) {
      const double element = 4 * static_cast<double>(one_to_two(of_column(static_cast<std::uint64_t>(c))));
      const double below = 1 - static_cast<double>(1 + c % kHalvings) * kLn2 / (element * l.scale);
      int exponent = 0;
      const double fraction = std::frexp(below, &exponent);
      const auto second = static_cast<float>(std::ldexp(std::rint(fraction * kBits) / kBits, exponent));
      at(k, token * l.d + c) = j == 0 ? 1 : j == 1 ? second : kHidden;
    }
    for (std::int64_t c = 0; c < l.dv; ++c)
      at(v, token * l.dv + c) = j == 0   ? 1
                                : j == 1 ? -std::ldexp(1.0F, static_cast<int>(1 + c % kHalvings))
                                         : 0;
  }
}

}  // namespace

void craft(AttentionDesign design, std::uint64_t seed, const AttentionLayout& l, std::span<float> q,
           std::span<float> k, std::span<float> v) {
  const std::uint64_t base = mixed(seed * 0x9E3779B97F4A7C15U + 1);
  const auto move = [&](ColumnOfV column) {
    if (l.is_narrow()) move_to_midpoints(base, l, column, seed / 2 % 2 == 1, q, k, v);
  };
  const auto keep_elements = [&] {
    keep_one_element(base, l, q, [](std::uint64_t draw, std::uint64_t) { return mixed(draw); });
  };
  switch (design) {
    case AttentionDesign::drawn:
      return;
    case AttentionDesign::pairs:
      if (seed % 2 == 0) return weigh_a_difference(base, l, q, k, v);
      keep_elements(), weigh_two(base, l, k, v);
      return move(ColumnOfV::pair);
    case AttentionDesign::single_products:
      keep_elements();
      return move(ColumnOfV::drawn);
    case AttentionDesign::single_values:
      keep_elements(), keep_one_value(base, l, v);
      return move(ColumnOfV::one_value);
    case AttentionDesign::cancelling:
      cancel(base, l, q, k), keep_one_value(base, l, v);
      return;
    case AttentionDesign::midpoints:
      return move(ColumnOfV::drawn);
  }
}

}  // namespace assay
