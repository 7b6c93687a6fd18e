#include "cases/studies/identify/attention_designs.hpp"

#include <cmath>

namespace assay {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
// Seven bits between 1 and 2: a number of any format of 8 significant bits.
float one_to_two(std::uint64_t x) { return 1 + static_cast<float>(x >> 57) * 0x1p-7f; }

}  // namespace

void craft(AttentionDesign design, std::uint64_t seed, const AttentionLayout& l, std::span<float> q,
           std::span<float> k, std::span<float> v) {
  if (design == AttentionDesign::drawn) return;
  const std::uint64_t base = mixed(seed * 0x9E3779B97F4A7C15U + 1);
  for (std::int64_t row = 0; row < l.batch * l.rows * l.heads; ++row) {
    const std::uint64_t draw = mixed(base + static_cast<std::uint64_t>(row));
    const auto kept = static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(l.d));
    for (std::int64_t c = 0; c < l.d; ++c) {
      float& x = q[static_cast<std::size_t>(row * l.d + c)];
      x = c != kept ? 0 : 4 * one_to_two(mixed(draw));
    }
  }
  if (design == AttentionDesign::single_products) return;
  constexpr float kHidden =
      -60000;  // times q, which is at least 4: below every logit of a pair by more than f32's exponentials reach
  for (std::int64_t b = 0; b < l.batch; ++b)
    for (std::int64_t j = 0; j < l.keys; ++j)
      for (std::int64_t g = 0; g < l.kv_heads; ++g) {
        const auto token = static_cast<std::size_t>((b * l.keys + j) * l.kv_heads + g);
        for (std::int64_t c = 0; c < l.d; ++c) {
          const std::uint64_t draw = mixed(base ^ mixed(token * 0x10001U + static_cast<std::uint64_t>(c)));
          const float depth = static_cast<float>(std::int64_t{1} << (draw % 5));
          k[token * static_cast<std::size_t>(l.d) + static_cast<std::size_t>(c)] =
              j == 0   ? one_to_two(draw)
              : j == 1 ? -depth * one_to_two(mixed(draw))
                       : kHidden;
        }
        for (std::int64_t c = 0; c < l.dv; ++c) {
          float& x = v[token * static_cast<std::size_t>(l.dv) + static_cast<std::size_t>(c)];
          x = j == c % 2 ? one_to_two(mixed(base + token * 0x777U + static_cast<std::uint64_t>(c))) : 0;
        }
      }
}

}  // namespace assay
