// What the attention kernels share: the problem read from a call, which keys a query sees, and the online
// softmax.
//   x[j]         = cap(scale * q[b,i,h,:] . k[b,j,g,:]) - slope_h * |i_abs - j|     over the visible keys j
//   p            = softmax_j(x);  a sink is one more logit of the denominator
//   out[b,i,h,:] = sum_j p[j] v[b,j,g,:];  0 when query i sees no key
//   g            = h / (heads / kv_heads)          the kv head that head h reads
//   i_abs        = length_b - q + i                the position of query i among the keys
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {

struct AttentionProblem {
  explicit AttentionProblem(const Call& call);

  std::int64_t batch, heads, kv_heads, d, dv, q, len, page;
  float scale;
  float softcap;
  bool causal;
  std::int64_t window;          // 0: none
  const assay_tensor* mask;     // random mask, or nullptr
  const assay_tensor* lengths;  // nullptr: every length is len
  const assay_tensor* page_table;
  const assay_tensor* sinks;
  const assay_tensor* slopes;
  bool unrotate;  // rotate=qkv: the output is in the rotated basis of V until it is transformed back
  std::string dtype;
  RowReader queries, keys, values;
  const assay_tensor& out;

  std::int64_t group() const { return heads / kv_heads; }
  std::int64_t length(std::int64_t b) const;
  // Row of `keys` and of `values` that holds key j of request b and head g.
  std::int64_t key_row(std::int64_t b, std::int64_t j, std::int64_t g) const;
  std::int64_t query_row(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return (b * q + i) * heads + h;
  }
};

struct Interval {
  std::int64_t begin, end;
};
// The keys that query i of request b may see, before a random mask.
Interval visible(const AttentionProblem& problem, std::int64_t b, std::int64_t i);

// One query row on its way through the keys. acc is not normalised; weights are exp(logit - top).
struct Stream {
  std::int64_t b = 0, i = 0, h = 0;
  float top = 0;  // set by reset()
  float sum = 0;
  float* acc = nullptr;  // [dv]
  void reset(std::int64_t dv);
};

// A block of consecutive keys, decoded to f32.
struct KeyBlock {
  std::int64_t first = 0;
  std::int64_t count = 0;
  const float* keys = nullptr;    // [count][d]
  const float* values = nullptr;  // [count][dv]
  // [count] q . k where a kernel has formed them already; keys are not read then.
  const float* scores = nullptr;
};

inline constexpr std::int64_t kMaxBlockKeys = 64;
inline constexpr std::int64_t kLargestHead = 1024;

// Reads the keys and values of a block through the page table.
void load_block(const AttentionProblem& problem, const Engine& engine, std::int64_t b, std::int64_t g,
                KeyBlock& block, float* keys, float* values);
// Takes a block into a query's stream. A key that the query does not see is skipped, never multiplied by 0:
// whatever lies there, NaN included, cannot show. round_p_to_f16: the weights are rounded before the product
// with V, not in their sum.
void absorb(const AttentionProblem& problem, const Engine& engine, const float* query, const KeyBlock& block,
            Stream& stream, bool round_p_to_f16 = false);
// Divides by the sum (sink included), transforms back where asked, rounds to dtype and stores. A row that saw
// no key is 0. `acc` is changed.
void finish(const AttentionProblem& problem, const Engine& engine, Stream& stream);

void attention_check(const Call& call);
// Every kernel here accumulates in f32; tile: keys per step of the online softmax; p: format of the weights.
std::string attention_contract(const Engine& engine, std::int64_t tile, std::string_view p = "f32");
// Of kernels whose logits are engine.dot_rows.
std::string attention_dot_order(const Engine& engine);
// What a kernel of tiles of so many keys declares to be judged bit by bit: " level=replay schedule=..."
// Throws Unsupported for calls of which one schedule does not say all. origin_rows: rows whose tiles begin at
// the first key that the first of them sees; more: what the kernel has beside that, p:f16 at least where
// weights are rounded; dots_of_rows: logits are engine.dot_rows.
std::string attention_whole_contract(const Call& call, const Engine& engine, std::int64_t tile,
                                     std::int64_t origin_rows, std::string_view more,
                                     bool dots_of_rows = true);

}  // namespace assay_cpu
