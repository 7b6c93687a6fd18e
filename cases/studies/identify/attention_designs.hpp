// Inputs of attention that isolate what drawn ones mix: the exponential and its argument, then the sums, then the products.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

enum class AttentionDesign : std::uint8_t {
  drawn,
  // Each row of q has one element, and keys from the third on are so far below that their weights are 0: a row has two weights, which
  // no order of sums can change, and each column of V has one of them. Keys 0 and 1 must be visible.
  pairs,
  // Each row of q has one element: a logit is one product.
  single_products,
};

// q [batch, rows, heads, d], k [batch, keys, kv_heads, d], v [batch, keys, kv_heads, dv], row-major.
struct AttentionLayout {
  std::int64_t batch = 1, rows = 1, heads = 1, kv_heads = 1, keys = 1, d = 1, dv = 1;
};
// Makes the design's inputs of drawn ones. What is new among their numbers fits into f16 and bf16.
void craft(AttentionDesign design, std::uint64_t seed, const AttentionLayout& layout, std::span<float> q,
           std::span<float> k, std::span<float> v);

}  // namespace assay
