// Decode against a long cache on tensor cores, split over the keys: bound by memory, so built around 16-byte
// loads straight into the operands' registers. By m16n8k16
//   S^T = K q^T
//   O^T = V^T P^T
// keys (then columns of V) are the 16 rows, the heads that share a kv head are the 8 columns, so that each
// byte of K and V is read once for all of them.
//
// A unit sums its 16 products in any order, so the 16 k of a step may be any 16 elements as long as both
// operands agree:
//   K   lane (g, t) loads 16 bytes at byte 64 l + 16 t of the rows of keys g and g + 8; its elements 4 s .. 4
//       s + 3 are k = 2t, 2t+1, 2t+8, 2t+9 of step s. q is loaded in the same order.
//   V   lane (g, t) loads the g-th chunks of the rows of keys 2t, 2t+1, 2t+8, 2t+9; interleaving the bytes of
//       two keys gives the pairs of neighbouring k that A wants. Its elements 2 n, 2 n + 1 are rows g and g +
//       8 of block n of O^T.
// e4m3fn and e5m2 become f16 exactly; scales of K and V are applied to the logits and to the output.
// A warp is a part of its own: it takes every W-th tile of its block's keys; the block merges its warps.
#pragma once

#include "backends/cuda/mma_attention_codes.cuh"
#include "backends/gpu/attention.cuh"

namespace assay_gpu {

inline constexpr int kSplitWarps = 4;
inline constexpr float kSlack = 8;  // weights are at most 2^8, far below f16's largest number

// The codes of K and V as this kernel tells them apart.
enum class SplitCodes : std::uint8_t { none, half, bfloat, e4m3, e5m2 };

struct SplitMmaArgs {
  AttentionArgs a;
  View keys, values;  // payloads at 16-byte addresses
  View k_scale;       // f32, one for all or one per kv head; no data: 1
  Partials partials;
  int part_keys;  // keys of a block, a multiple of the tile
};

// Keys of a step, keys of a block, blocks of a kv head: so many that every multiprocessor has as many as fit,
// once.
struct SplitPlan {
  std::int64_t tile, part_keys, parts;
};
SplitPlan split_mma_plan(std::int64_t len, std::int64_t d, int bytes, std::int64_t sequences,
                         std::int64_t kv_heads, std::int64_t group, int multiprocessors);
// The main kernel alone.
void launch_split_mma(const SplitMmaArgs& args, SplitCodes codes);

template <class Codes, int kD, int kColumns8>  // kColumns8: groups of 8 heads
__global__ void __launch_bounds__(kSplitWarps * 32, split_resident(Codes::kBytes, kColumns8 == 1))
    attention_split_mma(const GPU_GRID_CONSTANT SplitMmaArgs args) {
  using Shape = SplitShape<Codes, kD>;
  using Unit = typename Codes::Unit;
  constexpr int kHeads = 8 * kColumns8;
  __shared__ float shared_out[kSplitWarps][kHeads][kD];
  __shared__ float shared_top[kSplitWarps][kHeads];
  __shared__ float shared_sum[kSplitWarps][kHeads];
  const AttentionArgs& a = args.a;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int part = blockIdx.x, b = blockIdx.z;
  const int rows_of_group = (a.group + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.y / rows_of_group;
  const int first_head = blockIdx.y % rows_of_group * kHeads;  // within the group
  const int head0 = kv_head * a.group + first_head;
  const int heads = a.group - first_head < kHeads ? a.group - first_head : kHeads;

  const int length = length_of(a, b);
  const int position = length - 1;
  const KeyInterval seen = visible_keys(a, length, 0);
  const int part_begin = part * args.part_keys;
  const int begin = seen.begin > part_begin ? seen.begin : part_begin;
  const int part_end = part_begin + args.part_keys;
  const int end = seen.end < part_end ? seen.end : part_end;

  // q: B operand, column g of 8-head block c.
  std::uint32_t q[kColumns8][Shape::kSteps][2];
#pragma unroll
  for (int c = 0; c < kColumns8; ++c) {
    const bool real = 8 * c + g < heads;
    const unsigned char* row = a.queries.data + query_offset(a.queries, b, 0, head0 + (real ? 8 * c + g : 0));
#pragma unroll
    for (int s = 0; s < Shape::kSteps; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t pair = 0;
        for (int e = 0; e < 2; ++e) {
          const int column = Shape::key_column(t, 4 * s + 2 * half + e);
          const std::uint32_t code = reinterpret_cast<const std::uint16_t*>(row)[column];
          pair |= (real ? code : 0U) << (16 * e);
        }
        q[c][s][half] = pair;
      }
    }
  }
  const float k_scale =
      args.k_scale.data == nullptr ? 1.0F : vector_f32(args.k_scale, args.k_scale.shape[0] > 1 ? kv_head : 0);
  const LogitScale logit(a, k_scale);
  float slope[kColumns8][2], top[kColumns8][2], sum[kColumns8][2];
#pragma unroll
  for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int h = 8 * c + 2 * t + e;
      slope[c][e] = a.slopes.data != nullptr && h < heads ? vector_f32(a.slopes, head0 + h) : 0;
      top[c][e] = minus_infinity();
      sum[c][e] = 0;
    }
  }
  float out[kColumns8][kD / 16][4] = {};

  // Addresses: a block of 16 keys lies in one page.
  const std::int64_t k_stride = args.keys.stride[1], v_stride = args.values.stride[1];
  const unsigned char* k_base = args.keys.data + kv_head * args.keys.stride[2] + 16 * t;
  const unsigned char* v_base = args.values.data + kv_head * args.values.stride[2] + g * Shape::kChunk;
  const auto block_at = [&](const unsigned char* base, const View& view, int j) {
    const KeyPlace place = place_of(a, b, j);
    return base + place.outer * view.stride[0] + place.inner * view.stride[1];
  };
  uint4 k[Shape::kBlocks][2][Shape::kKeyLoads];
  uint4 v[Shape::kBlocks][4][Shape::kValueLoads];
  const auto load_keys = [&](int first) {
    if (first + Shape::kTile <= end) {
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
        const unsigned char* row = block_at(k_base, args.keys, first + 16 * block) + g * k_stride;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int l = 0; l < Shape::kKeyLoads; ++l)
            k[block][half][l] = load_streaming(row + 8 * half * k_stride + 64 * l);
        }
      }
      return;
    }
    // The last tile: what lies beyond is read from the last key instead, and masked later.
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int j = first + 16 * block + 8 * half + g;
        const unsigned char* row = block_at(k_base, args.keys, j < end ? j : end - 1);
#pragma unroll
        for (int l = 0; l < Shape::kKeyLoads; ++l) k[block][half][l] = load_streaming(row + 64 * l);
      }
    }
  };
  const auto load_values = [&](int first) {
    if (first >= begin && first + Shape::kTile <= end) {
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
        const unsigned char* row = block_at(v_base, args.values, first + 16 * block) + 2 * t * v_stride;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int l = 0; l < Shape::kValueLoads; ++l)
            v[block][i][l] =
                load_chunk(row + (i % 2 + i / 2 * 8) * v_stride + 8 * l * Shape::kChunk, Shape::kChunk);
        }
      }
      return;
    }
    // A weight of 0 does not hide what is not finite: V of keys that are not seen is 0.
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int j = first + 16 * block + 2 * t + i % 2 + i / 2 * 8;
        const bool real = j >= begin && j < end;
        const unsigned char* row = block_at(v_base, args.values, real ? j : begin);
#pragma unroll
        for (int l = 0; l < Shape::kValueLoads; ++l) {
          const uint4 x = load_chunk(row + 8 * l * Shape::kChunk, Shape::kChunk);
          v[block][i][l] = real ? x : uint4{0, 0, 0, 0};
        }
      }
    }
  };

  const int first_tile = (begin - part_begin) / Shape::kTile;
  int first = part_begin +
              (first_tile + (warp - first_tile % kSplitWarps + kSplitWarps) % kSplitWarps) * Shape::kTile;
  constexpr int kStride = kSplitWarps * Shape::kTile;
  if (first < end) load_keys(first);
  for (; first < end; first += kStride) {
    load_values(first);
    float s[Shape::kBlocks][kColumns8][4];
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[block][c][e] = 0;
      }
#pragma unroll
      for (int step = 0; step < Shape::kSteps; ++step) {
        std::uint32_t x[4];
        if constexpr (Codes::kWide) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            x[half] = word_of(k[block][half][step / 2], step % 2 * 2);
            x[half + 2] = word_of(k[block][half][step / 2], step % 2 * 2 + 1);
          }
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const std::uint32_t word = word_of(k[block][half][step / 4], step % 4);
            x[half] = Codes::widen(word);
            x[half + 2] = Codes::widen(word >> 16);
          }
        }
#pragma unroll
        for (int c = 0; c < kColumns8; ++c) Unit::mma(s[block][c], x, q[c][step][0], q[c][step][1]);
      }
    }
    if (first + kStride < end) load_keys(first + kStride);

    // Logits: S times one factor, and what few problems have besides.
    float factor = logit.factor;
    if (logit.cap > 0 || logit.bias || first < begin || first + Shape::kTile > end) {
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
        for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int j = first + 16 * block + g + e / 2 * 8;
            float& x = s[block][c][e];
            x = j >= begin && j < end ? logit(x, slope[c][e % 2], position, j) : minus_infinity();
          }
        }
      }
      factor = 1;
    }
    // The maximum that weights are relative to stays until some logit is above it by more than kSlack: most
    // tiles then need no word between the lanes, and no weight is above 2^kSlack.
    float highest[kColumns8][2];
    bool above = false;
#pragma unroll
    for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        highest[c][e] = fmaxf(s[0][c][e], s[0][c][e + 2]);
#pragma unroll
        for (int block = 1; block < Shape::kBlocks; ++block)
          highest[c][e] = fmaxf(highest[c][e], fmaxf(s[block][c][e], s[block][c][e + 2]));
        highest[c][e] *= factor;
        above = above || highest[c][e] > top[c][e] + kSlack;
      }
    }
    if (__any_sync(0xFFFFFFFFU, above)) {
#pragma unroll
      for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          for (int mask = 4; mask < 32; mask *= 2)
            highest[c][e] = fmaxf(highest[c][e], __shfl_xor_sync(0xFFFFFFFFU, highest[c][e], mask));
          const float risen = fmaxf(top[c][e], highest[c][e]);
          const float rescale = risen == top[c][e] ? 1.0F : exp2_approx(top[c][e] - risen);
          top[c][e] = risen;
          sum[c][e] *= rescale;
#pragma unroll
          for (int n = 0; n < kD / 16; ++n) {
            out[c][n][e] *= rescale;
            out[c][n][e + 2] *= rescale;
          }
        }
      }
    }
    std::uint32_t p[Shape::kBlocks][kColumns8][2];
#pragma unroll
    for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float shift = top[c][e] == minus_infinity() ? 0.0F : top[c][e];
#pragma unroll
        for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& x = s[block][c][e + 2 * half];
            x = exp2_approx(fmaf(x, factor, -shift));
            sum[c][e] += x;
          }
        }
      }
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
        p[block][c][0] = transpose_8x8(Unit::pack(s[block][c][0], s[block][c][1]));
        p[block][c][1] = transpose_8x8(Unit::pack(s[block][c][2], s[block][c][3]));
      }
    }
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      constexpr int kPerWord = Codes::kWide ? 1 : 2;  // blocks of O^T from one word of each of the keys
#pragma unroll
      for (int n0 = 0; n0 < kD / 16; n0 += kPerWord) {
        const int load = n0 / kPerWord / 4, word = n0 / kPerWord % 4;
        const std::uint32_t w0 = word_of(v[block][0][load], word), w1 = word_of(v[block][1][load], word);
        const std::uint32_t w2 = word_of(v[block][2][load], word), w3 = word_of(v[block][3][load], word);
        std::uint32_t x[4];
        if constexpr (Codes::kWide) {
          x[0] = __byte_perm(w0, w1, 0x5410);
          x[1] = __byte_perm(w0, w1, 0x7632);
          x[2] = __byte_perm(w2, w3, 0x5410);
          x[3] = __byte_perm(w2, w3, 0x7632);
#pragma unroll
          for (int c = 0; c < kColumns8; ++c) Unit::mma(out[c][n0], x, p[block][c][0], p[block][c][1]);
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const std::uint32_t order = half == 0 ? 0x5140 : 0x7362;
            const std::uint32_t low = __byte_perm(w0, w1, order), high = __byte_perm(w2, w3, order);
            x[0] = Codes::widen(low);
            x[1] = Codes::widen(low >> 16);
            x[2] = Codes::widen(high);
            x[3] = Codes::widen(high >> 16);
#pragma unroll
            for (int c = 0; c < kColumns8; ++c)
              Unit::mma(out[c][n0 + half], x, p[block][c][0], p[block][c][1]);
          }
        }
      }
    }
  }

  // The block's warps become one part.
#pragma unroll
  for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      for (int mask = 4; mask < 32; mask *= 2) sum[c][e] += __shfl_xor_sync(0xFFFFFFFFU, sum[c][e], mask);
      if (g == 0) {
        shared_top[warp][8 * c + 2 * t + e] = top[c][e];
        shared_sum[warp][8 * c + 2 * t + e] = sum[c][e];
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kColumns8; ++c) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int h = 8 * c + 2 * t + e;
      float highest = minus_infinity();
      for (int w = 0; w < kSplitWarps; ++w) highest = fmaxf(highest, shared_top[w][h]);
      // A warp without keys: 0 times 0.
      const float factor = top[c][e] == highest ? 1.0F : exp2_approx(top[c][e] - highest);
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) {
        shared_out[warp][h][Shape::value_column(g, 2 * n)] = out[c][n][e] * factor;
        shared_out[warp][h][Shape::value_column(g, 2 * n + 1)] = out[c][n][e + 2] * factor;
      }
    }
  }
  __syncthreads();
  for (int h = 0; h < heads; ++h) {
    const std::int64_t row = static_cast<std::int64_t>(b) * a.heads + head0 + h;
    const std::int64_t slot = row * args.partials.parts + part;
    for (int c = threadIdx.x; c < kD; c += kSplitWarps * 32) {
      float total = 0;
      for (int w = 0; w < kSplitWarps; ++w) total += shared_out[w][h][c];
      args.partials.outputs[slot * kD + c] = total;
    }
    if (threadIdx.x == 0) {
      float highest = minus_infinity(), total = 0;
      for (int w = 0; w < kSplitWarps; ++w) highest = fmaxf(highest, shared_top[w][h]);
      for (int w = 0; w < kSplitWarps; ++w) {
        const float w_top = shared_top[w][h];
        total += w_top == highest ? shared_sum[w][h] : exp2_approx(w_top - highest) * shared_sum[w][h];
      }
      args.partials.tops[slot] = highest;
      args.partials.sums[slot] = total;
    }
  }
}

}  // namespace assay_gpu
