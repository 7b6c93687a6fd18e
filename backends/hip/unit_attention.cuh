// Attention on a matrix unit, one wave per block: 16 query rows (tokens x heads that share a kv head) against
// the keys of a part, in tiles of 64.
//   S[16,64]  = codes of q times codes of K, chained through d in the unit; its scale, k_scale q_scale, comes
//             with
//               the logit. q is quantised here, for FP8 units by absmax / largest of the row.
//   P         = 2^kShift times the weights in the unit's format; the row sum is of the weights before that
//   O[16,dv]  = O factor + P V, P V chained from zero over the tile's 64 keys: the second level of
//             accumulation
//               is f32
// The part's top, sum and O go to attention_merge. A tile of V with a code that is no finite number leaves
// the unit: a weight of 0 times NaN would be NaN, so such a tile is summed key by key over the keys that a
// row sees.
#pragma once

#include "backends/gpu/attention.cuh"
#include "backends/hip/units.hpp"

namespace assay_gpu {

struct UnitAttentionArgs {
  AttentionArgs a;
  View keys, values;  // payloads at 16-byte addresses, rows at multiples of 16 bytes
  View k_scale;       // f32, one for all or one per kv head; no data: 1
  Partials partials;
  int part_keys;  // a multiple of 64
};

inline constexpr int kUnitTile = 64;
inline constexpr int kUnitRows = 16;

// What an operand format means to the kernel around the unit.
template <Element kElement_, int kShift_>
struct Operand {
  static constexpr Element kElement = kElement_;
  static constexpr int kShift = kShift_;
  static constexpr bool kQuantises = kElement_ != Element::f16;
  static constexpr float kLargest = kElement_ == Element::e4m3fn ? 448.0F : 240.0F;
};
using OperandE4m3fn = Operand<Element::e4m3fn, 8>;      // weights up to 2^8 < 448
using OperandE4m3fnuz = Operand<Element::e4m3fnuz, 7>;  // up to 2^7 < 240
using OperandF16 = Operand<Element::f16, 0>;

template <class Unit, class Op, int kD>
struct UnitShared {
  using Layout = typename Unit::Layout;
  using Code = typename Layout::Code;
  static constexpr int kParts = Layout::kWave / kUnitRows;  // threads that share a row of S
  alignas(16) Code queries[kUnitRows][kD + 16 / sizeof(Code)];
  alignas(16) Code weights[kUnitRows][kUnitTile + 16 / sizeof(Code)];
  alignas(16) Code values[kUnitTile][kD];
  float scores[kUnitRows][kUnitTile + 1];
  float partial[kParts][kUnitRows];
  float top[kUnitRows], sum[kUnitRows], factor[kUnitRows], q_scale[kUnitRows];
  int special;
};

template <class Layout>
__device__ inline Fragment<Layout> fragment_at(const typename Layout::Code* codes) {
  Fragment<Layout> f;
  __builtin_memcpy(f.code, codes, sizeof f.code);
  return f;
}

// Row m of the block: token and head.
struct UnitRow {
  bool real;
  int i, h;
};
__device__ inline UnitRow unit_row(const AttentionArgs& a, int kv_head, int block, int m) {
  const int r = block * kUnitRows + m;
  const bool real = r < a.q * a.group;
  return {real, real ? r / a.group : 0, kv_head * a.group + (real ? r % a.group : 0)};
}

template <class Unit, class Op, int kD>
__device__ void load_queries(const UnitAttentionArgs& args, UnitShared<Unit, Op, kD>& s, int b, int kv_head,
                             int block) {
  using Code = typename Unit::Layout::Code;
  const AttentionArgs& a = args.a;
  const int thread = static_cast<int>(threadIdx.x), m = thread % kUnitRows, part = thread / kUnitRows;
  constexpr int kParts = UnitShared<Unit, Op, kD>::kParts;
  const UnitRow row = unit_row(a, kv_head, block, m);
  const unsigned char* q = a.queries.data + query_offset(a.queries, b, row.i, row.h);
  const int bytes = dtype_bytes(a.dtype);
  float absmax = 0;
  for (int c = part; c < kD; c += kParts)
    absmax = Max{}(absmax, magnitude(load_element(q + c * bytes, a.dtype)));
  s.partial[part][m] = absmax;
  __syncthreads();
  for (int p = 0; p < kParts; ++p) absmax = Max{}(absmax, s.partial[p][m]);
  const float scale = Op::kQuantises && absmax > 0 ? absmax / Op::kLargest : 1.0F;
  if (part == 0) s.q_scale[m] = scale;
  for (int c = part; c < kD; c += kParts) {
    const float x = row.real ? load_element(q + c * bytes, a.dtype) : 0.0F;
    s.queries[m][c] = static_cast<Code>(Unit::encode(Op::kQuantises ? x / scale : x));
  }
  __syncthreads();
}

// V of the tile's keys in [begin, end); zero elsewhere. Notes codes that are not finite.
template <class Unit, class Op, int kD>
__device__ void load_values(const UnitAttentionArgs& args, UnitShared<Unit, Op, kD>& s, int b, int kv_head,
                            int first, int begin, int end) {
  using Code = typename Unit::Layout::Code;
  if (threadIdx.x == 0) s.special = 0;
  __syncthreads();
  constexpr int kChunk = 16 / sizeof(Code), kChunks = kD / kChunk;
  for (int at = static_cast<int>(threadIdx.x); at < kUnitTile * kChunks; at += Unit::Layout::kWave) {
    const int key = at / kChunks, column = at % kChunks * kChunk, j = first + key;
    alignas(16) Code chunk[kChunk] = {};
    if (j >= begin && j < end) {
      const unsigned char* row = args.values.data + key_offset(args.values, place_of(args.a, b, j), kv_head);
      __builtin_memcpy(chunk, __builtin_assume_aligned(row + column * static_cast<int>(sizeof(Code)), 16),
                       16);
    }
    bool special = false;
    for (int c = 0; c < kChunk; ++c) special |= !is_finite(decode_element(Op::kElement, chunk[c]));
    if (special) s.special = 1;
    __builtin_memcpy(__builtin_assume_aligned(&s.values[key][column], 16), chunk, 16);
  }
  __syncthreads();
}

// S of the tile into shared memory, before any scale.
template <class Unit, class Op, int kD>
__device__ void score_tile(const UnitAttentionArgs& args, UnitShared<Unit, Op, kD>& s, int b, int kv_head,
                           int first, int begin, int end) {
  using Layout = typename Unit::Layout;
  const int lane = static_cast<int>(threadIdx.x), column = lane % 16, k0 = Layout::first_k(lane);
  for (int block = 0; block < kUnitTile / 16; ++block) {
    const int j = first + block * 16 + column;
    const bool real = j >= begin && j < end;
    const unsigned char* row = args.keys.data;
    if (real) row += key_offset(args.keys, place_of(args.a, b, j), kv_head);
    typename Unit::Acc acc{};
#pragma unroll
    for (int k = 0; k < kD; k += Layout::kDepth) {
      Fragment<Layout> key{};
      if (real)
        __builtin_memcpy(key.code,
                         __builtin_assume_aligned(row + (k + k0) * static_cast<int>(sizeof key.code[0]), 8),
                         sizeof key.code);
      Unit::mma(fragment_at<Layout>(&s.queries[column][k + k0]), key, acc);
    }
    for (int i = 0; i < Layout::kResults; ++i)
      s.scores[Layout::row_of(lane, i)][block * 16 + column] = acc.value[i];
  }
  __syncthreads();
}

// Scores become logits, the running top and sum move on, weights are rounded into the unit's format.
template <class Unit, class Op, int kD>
__device__ void weigh_tile(const UnitAttentionArgs& args, UnitShared<Unit, Op, kD>& s, int b, int kv_head,
                           int block, int first, int begin, int end, float k_scale) {
  using Shared = UnitShared<Unit, Op, kD>;
  const AttentionArgs& a = args.a;
  const int thread = static_cast<int>(threadIdx.x), m = thread % kUnitRows, part = thread / kUnitRows;
  const UnitRow row = unit_row(a, kv_head, block, m);
  const int length = length_of(a, b), position = length - a.q + row.i;
  const KeyInterval seen = visible_keys(a, length, row.i);
  const LogitScale logit(a, k_scale * s.q_scale[m]);
  const float slope = a.slopes.data != nullptr ? vector_f32(a.slopes, row.h) : 0.0F;
  float highest = minus_infinity();
  for (int c = part; c < kUnitTile; c += Shared::kParts) {
    const int j = first + c;
    const bool visible =
        row.real && j >= begin && j < end && j >= seen.begin && j < seen.end && !masked_out(a, row.i, j);
    const float x = visible ? logit(s.scores[m][c], slope, position, j) : minus_infinity();
    s.scores[m][c] = x;
    highest = Max{}(highest, x);
  }
  s.partial[part][m] = highest;
  __syncthreads();
  float top = s.top[m];
  const float before = top;
  for (int p = 0; p < Shared::kParts; ++p) top = Max{}(top, s.partial[p][m]);
  __syncthreads();
  const float shift = top == minus_infinity() ? 0.0F : top;
  const float factor = before == top ? 1.0F : exp2f(before - shift);
  float sum = 0;
  for (int c = part; c < kUnitTile; c += Shared::kParts) {
    const float x = s.scores[m][c];
    const float w = x == minus_infinity() ? 0.0F : exp2f(x - shift);  // a NaN stays one
    sum += w;
    s.weights[m][c] =
        static_cast<typename Unit::Layout::Code>(Unit::encode(w * static_cast<float>(1 << Op::kShift)));
  }
  s.partial[part][m] = sum;
  __syncthreads();
  if (part == 0) {
    sum = s.sum[m] * factor;
    for (int p = 0; p < Shared::kParts; ++p) sum += s.partial[p][m];
    s.sum[m] = sum;
    s.top[m] = top;
    s.factor[m] = factor;
  }
  __syncthreads();
}

// Inlined by force: outlined it would lose its registers to a call, and the kernel its instruction.
template <class Unit, class Op, int kD>
__device__ __attribute__((always_inline)) inline void attend_on_unit(const UnitAttentionArgs& args) {
  using Layout = typename Unit::Layout;
  using Code = typename Layout::Code;
  __shared__ UnitShared<Unit, Op, kD> s;
  const AttentionArgs& a = args.a;
  const int lane = static_cast<int>(threadIdx.x), column = lane % 16, k0 = Layout::first_k(lane);
  const int blocks = (a.q * a.group + kUnitRows - 1) / kUnitRows;
  const int part = static_cast<int>(blockIdx.x), b = static_cast<int>(blockIdx.z);
  const int kv_head = static_cast<int>(blockIdx.y) / blocks, block = static_cast<int>(blockIdx.y) % blocks;

  const int length = length_of(a, b);
  const UnitRow oldest = unit_row(a, kv_head, block, 0);
  const int last_row =
      block * kUnitRows + kUnitRows < a.q * a.group ? block * kUnitRows + kUnitRows : a.q * a.group;
  const int part_begin = part * args.part_keys, part_end = part_begin + args.part_keys;
  int begin = visible_keys(a, length, oldest.i).begin,
      end = visible_keys(a, length, (last_row - 1) / a.group).end;
  if (begin < part_begin) begin = part_begin;
  if (end > part_end) end = part_end;

  if (lane < kUnitRows) {
    s.top[lane] = minus_infinity();
    s.sum[lane] = 0;
  }
  load_queries(args, s, b, kv_head, block);
  const float k_scale =
      args.k_scale.data == nullptr ? 1.0F : vector_f32(args.k_scale, args.k_scale.shape[0] > 1 ? kv_head : 0);
  typename Unit::Acc out[kD / 16] = {};
  for (int first = part_begin + (begin > part_begin ? (begin - part_begin) / kUnitTile * kUnitTile : 0);
       first < end; first += kUnitTile) {
    load_values(args, s, b, kv_head, first, begin, end);
    score_tile(args, s, b, kv_head, first, begin, end);
    weigh_tile(args, s, b, kv_head, block, first, begin, end, k_scale);
#pragma unroll
    for (int n = 0; n < kD / 16; ++n) {
      typename Unit::Acc tile{};
      if (s.special == 0) {
#pragma unroll
        for (int k = 0; k < kUnitTile; k += Layout::kDepth) {
          Fragment<Layout> v;
          for (int e = 0; e < Layout::kPerLane; ++e) v.code[e] = s.values[k + k0 + e][n * 16 + column];
          Unit::mma(fragment_at<Layout>(&s.weights[column][k + k0]), v, tile);
        }
      } else {
        for (int i = 0; i < Layout::kResults; ++i) {
          const int m = Layout::row_of(lane, i);
          for (int k = 0; k < kUnitTile; ++k) {
            if (s.scores[m][k] == minus_infinity()) continue;
            const Code w = s.weights[m][k], v = s.values[k][n * 16 + column];
            tile.value[i] += decode_element(Op::kElement, w) * decode_element(Op::kElement, v);
          }
        }
      }
      for (int i = 0; i < Layout::kResults; ++i)
        out[n].value[i] = out[n].value[i] * s.factor[Layout::row_of(lane, i)] + tile.value[i];
    }
    __syncthreads();
  }
  const float unshift = 1.0F / static_cast<float>(1 << Op::kShift);
  for (int i = 0; i < Layout::kResults; ++i) {
    const int m = Layout::row_of(lane, i);
    const UnitRow row = unit_row(a, kv_head, block, m);
    if (!row.real) continue;
    const std::int64_t r = (static_cast<std::int64_t>(b) * a.q + row.i) * a.heads + row.h;
    const std::int64_t slot = r * args.partials.parts + part;
    for (int n = 0; n < kD / 16; ++n)
      args.partials.outputs[slot * kD + n * 16 + column] = out[n].value[i] * unshift;
    if (column == 0) {
      args.partials.tops[slot] = s.top[m];
      args.partials.sums[slot] = s.sum[m];
    }
  }
}

}  // namespace assay_gpu
