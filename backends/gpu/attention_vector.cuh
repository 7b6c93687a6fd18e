// The vector kernel: every format of K and of V read as it is stored, f32 arithmetic throughout.
// A block has kRows rows (queries of one kv head: query i and head of the group) against a run of keys. A
// tile of keys is taken in steps that fit into shared memory, decoded to f32:
//   for each step of the tile: decode K, s = q.k       (a thread per key and row)
//   largest logit, weights 2^(x - top), their sum      (a warp per row)
//   sums and outputs so far times 2^(old top - top)
//   for each step of the tile: decode V, o += w v      (a thread per column)
// A key that a row does not see has weight -1 and is skipped, never multiplied by 0: whatever lies there
// cannot show.
#pragma once

#include "backends/gpu/attention.cuh"
#include "backends/gpu/formats.cuh"

namespace assay_gpu {

inline constexpr int kVectorThreads = 128;
inline constexpr int kVectorSteps = 4;  // of a tile

// Keys of a step and rows of a block, by the larger of d and dv: what 64 KiB of shared memory hold.
struct VectorShape {
  int keys, rows;
  int tile() const { return keys * kVectorSteps; }
};
GPU_BOTH VectorShape vector_shape(int width) {
  if (width <= 256) return {32, 8};
  return {width <= 576 ? 16 : 8, 4};
}

// Formats with a compiled branch of their own; `any` asks the planes for each element.
enum class Fast : std::uint8_t { any, f16, bf16, e4m3fn, e5m2, q8_0, q4_0, tq3_0_c2s1 };

struct VectorArgs {
  AttentionArgs a;
  Partials partials;  // not read by the kernel that finishes its rows itself
  int parts;
  int part_keys;  // a multiple of the tile
  int row_blocks;
  int step_keys, width;  // of a step; the larger of d and dv
};

#if defined(__CUDACC__) || ASSAY_GPU_HIP

// One key's row of K or V, element by element.
template <Fast kFast>
struct KeyReader {
  const Planes& planes;
  const unsigned char* at = nullptr;
  std::int64_t row = 0;
  float scale = 1;

  __device__ KeyReader(const AttentionArgs& a, const Planes& p, int b, int j, int g) : planes(p) {
    if constexpr (kFast == Fast::any) {
      row = key_row(a, b, j, g);
    } else {
      const KeyPlace place = place_of(a, b, j);
      at = p.payload.data + key_offset(p.payload, place, g);
      if (p.format.scaling == Scaling::tensor) scale = vector_f32(p.scale, 0);
      if (p.format.scaling == Scaling::head) scale = vector_f32(p.scale, g);
      if (p.format.scaling == Scaling::token) {
        scale = vector_f32(
            p.scale, static_cast<std::int64_t>(place.outer) * (a.page == 0 ? a.len : a.page) + place.inner);
      }
    }
  }
  __device__ float operator()(int c) const {
    if constexpr (kFast == Fast::any) {
      return decode(planes, row, c);
    } else if constexpr (kFast == Fast::f16) {
      return decode_element(Element::f16, reinterpret_cast<const std::uint16_t*>(at)[c]) * scale;
    } else if constexpr (kFast == Fast::bf16) {
      return decode_element(Element::bf16, reinterpret_cast<const std::uint16_t*>(at)[c]) * scale;
    } else if constexpr (kFast == Fast::e4m3fn) {
      return decode_element(Element::e4m3fn, at[c]) * scale;
    } else if constexpr (kFast == Fast::e5m2) {
      return decode_element(Element::e5m2, at[c]) * scale;
    } else {
      constexpr Block kBlock = kFast == Fast::q8_0   ? Block::q8_0
                               : kFast == Fast::q4_0 ? Block::q4_0
                                                     : Block::tq3_0_c2s1;
      return decode_inline(kBlock, at + c / 32 * inline_bytes(kBlock), c % 32);
    }
  }
};

struct Row {
  int i, h;  // query and head
};

// Divides row `row` of `out` (f32, in shared memory) by the sum, transforms back where asked, rounds and
// stores. Called by whole warps with the same row; columns are dealt to `warps` warps in groups of 32.
__device__ inline void store_row(const AttentionArgs& a, int b, Row row, const float* out, float sum,
                                 float v_scale, int warp, int warps, int lane) {
  unsigned char* to = a.out.data + query_offset(a.out, b, row.i, row.h);
  for (int first = 32 * warp; first < a.dv; first += 32 * warps) {
    const int c = first + lane;
    float x = c < a.dv && sum != 0 ? out[c] / sum * v_scale : 0.0F;
    if (a.unrotate) {  // dv is a multiple of 32
      for (int mask = 1; mask < 32; mask *= 2) {
        const float other = shuffle_xor(x, mask);
        x = (lane & mask) != 0 ? other - x : x + other;
      }
      x *= 0.17677669529663689F;  // 1 / sqrt(32)
      if ((kTq3Signs >> lane & 1U) != 0) x = -x;
    }
    if (c < a.dv) store_element(to + c * dtype_bytes(a.dtype), a.dtype, x);
  }
}

// The sink joins: a largest logit and a sum that may have to be rescaled by the returned factor.
__device__ inline float add_sink(const AttentionArgs& a, int h, float& top, float& sum) {
  if (a.sinks.data == nullptr || top == minus_infinity()) return 1.0F;
  const float sink = vector_f32(a.sinks, h) * kLog2E;
  const float risen = fmaxf(top, sink);
  const float factor = risen == top ? 1.0F : exp2f(top - risen);
  sum = sum * factor + exp2f(sink - risen);
  top = risen;
  return factor;
}

template <Fast kKeys, Fast kValues, int kColumns, int kRows, bool kFinish>
__device__ void vector_attention(const VectorArgs& args) {
  extern __shared__ float shared[];
  const AttentionArgs& a = args.a;
  const int tile = args.step_keys * kVectorSteps;
  const int pitch = args.width + 1;
  float* queries = shared;                         // [kRows][d]
  float* step = queries + kRows * args.width;      // [step_keys][pitch]
  float* weights = step + args.step_keys * pitch;  // [kRows][tile]
  float* factors = weights + kRows * tile;         // [kRows]
  float* tops = factors + kRows;
  float* sums = tops + kRows;

  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  constexpr int kWarps = kVectorThreads / kWarp;
  std::int64_t index = blockIdx.x;
  const int part = static_cast<int>(index % args.parts);
  index /= args.parts;
  const int first_row = static_cast<int>(index % args.row_blocks) * kRows;
  index /= args.row_blocks;
  const int g = static_cast<int>(index % a.kv_heads), b = static_cast<int>(index / a.kv_heads);
  const int rows = a.q * a.group - first_row < kRows ? a.q * a.group - first_row : kRows;
  const int length = length_of(a, b);
  const auto row_at = [&](int r) {
    return Row{(first_row + r) / a.group, g * a.group + (first_row + r) % a.group};
  };

  for (int e = thread; e < rows * a.d; e += kVectorThreads) {
    const Row row = row_at(e / a.d);
    queries[e] = load_element(
        a.queries.data + query_offset(a.queries, b, row.i, row.h) + e % a.d * dtype_bytes(a.dtype), a.dtype);
  }
  if (thread < kRows) {
    tops[thread] = minus_infinity();
    sums[thread] = 0;
  }
  float acc[kRows][kColumns] = {};
  const LogitScale logit(a, 1);

  // The rows' intervals rise with i, so the first row's begin and the last row's end bound them all.
  int begin = visible_keys(a, length, row_at(0).i).begin,
      end = visible_keys(a, length, row_at(rows - 1).i).end;
  if (begin < part * args.part_keys) begin = part * args.part_keys;
  if (end > (part + 1) * args.part_keys) end = (part + 1) * args.part_keys;
  for (int first = begin / tile * tile; first < end; first += tile) {
    for (int s = 0; s < kVectorSteps; ++s) {
      const int j0 = first + s * args.step_keys;
      __syncthreads();
      for (int key = warp; key < args.step_keys; key += kWarps) {
        const int j = j0 + key;
        if (j < begin || j >= end) continue;
        const KeyReader<kKeys> k(a, a.keys, b, j, g);
        for (int c = lane; c < a.d; c += kWarp) step[key * pitch + c] = k(c);
      }
      __syncthreads();
      for (int e = thread; e < rows * args.step_keys; e += kVectorThreads) {
        const int key = e % args.step_keys, r = e / args.step_keys, j = j0 + key;
        if (j < begin || j >= end) continue;
        float dot = 0;
        for (int c = 0; c < a.d; ++c) dot = fmaf(queries[r * a.d + c], step[key * pitch + c], dot);
        weights[r * tile + s * args.step_keys + key] = dot;
      }
    }
    __syncthreads();
    for (int r = warp; r < rows; r += kWarps) {
      const Row row = row_at(r);
      const KeyInterval seen = visible_keys(a, length, row.i);
      const int position = length - a.q + row.i;
      const float slope = a.slopes.data == nullptr ? 0.0F : vector_f32(a.slopes, row.h);
      const auto sees = [&](int j) {
        return j >= begin && j < end && j >= seen.begin && j < seen.end && !masked_out(a, row.i, j);
      };
      float highest = minus_infinity();
      for (int key = lane; key < tile; key += kWarp) {
        if (!sees(first + key)) continue;
        float& w = weights[r * tile + key];
        w = logit(w, slope, position, first + key);
        highest = fmaxf(highest, w);
      }
      highest = warp_reduce(highest, Max{});
      const float old = shuffle(lane == 0 ? tops[r] : 0.0F, 0);
      const float risen = fmaxf(old, highest);
      // Any finite shift: -inf gives 0, NaN gives NaN.
      const float shift = risen == minus_infinity() ? 0.0F : risen;
      float total = 0;
      for (int key = lane; key < tile; key += kWarp) {
        float& w = weights[r * tile + key];
        w = sees(first + key) ? exp2f(w - shift) : -1.0F;
        if (!(w < 0)) total += w;
      }
      total = warp_reduce(total, Sum{});
      if (lane == 0) {
        const float factor = risen == old ? 1.0F : exp2f(old - shift);
        factors[r] = factor;
        tops[r] = risen;
        sums[r] = sums[r] * factor + total;
      }
    }
    for (int s = 0; s < kVectorSteps; ++s) {
      const int j0 = first + s * args.step_keys;
      __syncthreads();
      if (s == 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (r >= rows) continue;
#pragma unroll
          for (int n = 0; n < kColumns; ++n) acc[r][n] *= factors[r];
        }
      }
      for (int key = warp; key < args.step_keys; key += kWarps) {
        const int j = j0 + key;
        if (j < begin || j >= end) continue;
        const KeyReader<kValues> v(a, a.values, b, j, g);
        for (int c = lane; c < a.dv; c += kWarp) step[key * pitch + c] = v(c);
      }
      __syncthreads();
      for (int key = 0; key < args.step_keys; ++key) {
        const int j = j0 + key;
        if (j < begin || j >= end) continue;
        float v[kColumns];
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const int c = thread + n * kVectorThreads;
          v[n] = c < a.dv ? step[key * pitch + c] : 0.0F;
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (r >= rows) continue;
          const float w = weights[r * tile + s * args.step_keys + key];
          if (w < 0) continue;
#pragma unroll
          for (int n = 0; n < kColumns; ++n) acc[r][n] = fmaf(w, v[n], acc[r][n]);
        }
      }
    }
  }
  __syncthreads();

  if constexpr (kFinish) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) continue;
      const Row row = row_at(r);
      float top = tops[r], sum = sums[r];
      const float factor = add_sink(a, row.h, top, sum);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int c = thread + n * kVectorThreads;
        if (c < a.dv) step[c] = acc[r][n] * factor;
      }
      __syncthreads();
      store_row(a, b, row, step, sum, 1.0F, warp, kWarps, lane);
      __syncthreads();
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) continue;
      const Row row = row_at(r);
      const std::int64_t slot =
          ((static_cast<std::int64_t>(b) * a.q + row.i) * a.heads + row.h) * args.parts + part;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int c = thread + n * kVectorThreads;
        if (c < a.dv) args.partials.outputs[slot * a.dv + c] = acc[r][n];
      }
      if (thread == 0) {
        args.partials.tops[slot] = tops[r];
        args.partials.sums[slot] = sums[r];
      }
    }
  }
}

#endif

// Host side. Launches the instance for these formats and widths: it finishes its rows when parts is 1, else
// leaves partials.
void run_vector(Run& run, const AttentionArgs& args, int parts, int part_keys, const Partials& partials);

}  // namespace assay_gpu
