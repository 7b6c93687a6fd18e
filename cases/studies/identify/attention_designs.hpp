// Inputs of attention that isolate what drawn ones mix: the exponential and its argument, then the sums, then
// the products.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

enum class AttentionDesign : std::uint8_t {
  drawn,
  // Each row of q has one element, and keys from the third on are so far below that their weights are 0: a
  // row has two weights, which no order of sums can change, and each column of V has one of them. Keys 0 and
  // 1 must be visible. Under even seeds the second weight is about a power of two, and columns of V have the
  // difference of both, times powers of two: its last bits show in any store.
  pairs,
  // Each row of q has one element: a logit is one product.
  single_products,
  // Besides, each column of V has one element: an output is one weight, and no order of values can change it.
  single_values,
  // V as in single_values; half of a logit's products are pairs of large ones that cancel: what their sums
  // are rounded to, whichever order it depends on, shows in weights of few bits.
  cancelling,
  // As drawn, but for one value in each column of V (attention_midpoints.hpp); for narrow stores, whose
  // single_products and single_values have such values too.
  midpoints,
};

// q [batch, rows, heads, d], k [batch, keys, kv_heads, d], v [batch, keys, kv_heads, dv], row-major.
struct AttentionLayout {
  std::int64_t batch = 1, rows = 1, heads = 1, kv_heads = 1, keys = 1, d = 1, dv = 1;
  double scale = 1;                  // of q.k
  int stored_bits = 24, v_bits = 8;  // that are significant, of an output and of what V can hold, 8 at most
  bool is_narrow() const { return stored_bits < 24; }
};
// Makes the design's inputs of drawn ones. What is new among their numbers fits into f16 and bf16.
void craft(AttentionDesign design, std::uint64_t seed, const AttentionLayout& layout, std::span<float> q,
           std::span<float> k, std::span<float> v);

}  // namespace assay
