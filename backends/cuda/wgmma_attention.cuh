// FP8 attention on Hopper's matrix unit: q, K, p and V in e4m3, both products by wgmma.
// A warpgroup has 64 rows (queries of one kv head: query i and head of the group) against tiles of 128 keys.
//   q     a scale per row, absmax / 448, and codes to nearest; the scale joins the logit's
//   p     2^8 times the weight, to e4m3; the row sum is of the weights before that
//   p.v   kPromote keys are summed in the unit from zero and then added to f32 registers: the unit keeps 13
//         fraction bits. kPromote = 0: never, everything chains through the unit (and is rescaled in its
//         register).
// wgmma takes e4m3 K-major only, so V is transposed on its way into shared memory. The unit's 32 products may
// stand in any order: position 16 u + 4 t + e of a group of 32 keys holds key 16 u + 2 t + e % 2 + 8 (e / 2),
// which is where a lane already has its weights.
//
// A weight of 0 does not hide a V that is NaN: such codes become 0 for the unit, and NaN goes to the outputs
// of the rows that see the key.
#pragma once

#include "backends/cuda/mma.cuh"
#include "backends/cuda/mma_attention.hpp"
#include "backends/cuda/wgmma.cuh"
#include "backends/gpu/attention_vector.cuh"

namespace assay_gpu {

inline constexpr int kFp8Tile = kFp8AttentionTile;
inline constexpr int kFp8Rows = 64;
inline constexpr int kFp8Threads = 128;
inline constexpr float kWeightScale = 256;

struct Fp8Args {
  AttentionArgs a;
  View keys, values;      // payloads at 16-byte addresses
  View k_scale, v_scale;  // f32, one for all or one per kv head; no data: 1
  int row_blocks;
};

__device__ inline float scale_of(const View& scale, int kv_head) {
  return scale.data == nullptr ? 1.0F : vector_f32(scale, scale.shape[0] > 1 ? kv_head : 0);
}

__device__ inline std::uint32_t to_e4m3(float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ inline bool has_nan(std::uint32_t codes) {  // of four
  const std::uint32_t low = codes & 0x7F7F7F7FU;
  return ((low + 0x01010101U) & 0x80808080U) != 0;
}

template <int kD, int kPromote>
__global__ void __launch_bounds__(kFp8Threads) attention_fp8_wgmma(const GPU_GRID_CONSTANT Fp8Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(128) unsigned char queries[kFp8Rows * kD];
  __shared__ __align__(128) unsigned char keys[kFp8Tile * kD];
  __shared__ __align__(128) unsigned char values[kD * kFp8Tile];  // transposed
  __shared__ float q_scales[kFp8Rows];
  const AttentionArgs& a = args.a;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  int index = blockIdx.x;
  const int first_row = index % args.row_blocks * kFp8Rows;
  index /= args.row_blocks;
  const int kv_head = index % a.kv_heads, b = index / a.kv_heads;
  const int rows = a.q * a.group - first_row < kFp8Rows ? a.q * a.group - first_row : kFp8Rows;
  const int length = length_of(a, b);
  const auto row_at = [&](int r) {
    return Row{(first_row + r) / a.group, kv_head * a.group + (first_row + r) % a.group};
  };

  for (int r = warp; r < kFp8Rows; r += kFp8Threads / 32) {  // a warp per row, 4 columns a lane
    float x[kD / 32] = {}, largest = 0;
    if (r < rows) {
      const Row row = row_at(r);
      const unsigned char* at = a.queries.data + query_offset(a.queries, b, row.i, row.h);
#pragma unroll
      for (int n = 0; n < kD / 32; ++n) {
        x[n] = load_element(at + (kD / 32 * lane + n) * dtype_bytes(a.dtype), a.dtype);
        largest = fmaxf(largest, fabsf(x[n]));
      }
    }
    largest = warp_reduce(largest, Max{});
    float scale = largest / 448.0F;
    if (!(scale > 0)) scale = 1;
    if (lane == 0) q_scales[r] = scale;
#pragma unroll
    for (int n = 0; n < kD / 32; n += 2) {
      const int c = kD / 32 * lane + n;
      *reinterpret_cast<std::uint16_t*>(queries + c / 16 * (kFp8Rows * 16) + r * 16 + c % 16) =
          static_cast<std::uint16_t>(to_e4m3(x[n] / scale, x[n + 1] / scale));
    }
  }
  __syncthreads();

  const float k_scale = scale_of(args.k_scale, kv_head);
  const int own[2] = {16 * warp + g, 16 * warp + g + 8};
  const LogitScale logit[2] = {LogitScale(a, k_scale * q_scales[own[0]]),
                               LogitScale(a, k_scale * q_scales[own[1]])};
  KeyInterval seen[2];
  float slope[2], top[2], sum[2];
  int position[2], query[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Row row = row_at(own[r] < rows ? own[r] : 0);
    query[r] = row.i;
    position[r] = length - a.q + row.i;
    seen[r] = own[r] < rows ? visible_keys(a, length, row.i) : KeyInterval{0, 0};
    slope[r] = a.slopes.data == nullptr ? 0.0F : vector_f32(a.slopes, row.h);
    top[r] = minus_infinity();
    sum[r] = 0;
  }
  const auto sees = [&](int r, int j) {
    return j >= seen[r].begin && j < seen[r].end && !masked_out(a, query[r], j);
  };

  constexpr bool kTwoLevels = kPromote > 0;
  [[maybe_unused]] constexpr int kPromoteTiles = kPromote < kFp8Tile ? 1 : kPromote / kFp8Tile;
  float out[kD / 2] = {};                                      // f32 registers, or the unit's own
  [[maybe_unused]] float chain[kTwoLevels ? kD / 2 : 1] = {};  // partial sums in the unit
  [[maybe_unused]] int chained = 0;                            // tiles in them
  const int begin = visible_keys(a, length, row_at(0).i).begin / kFp8Tile * kFp8Tile;
  const int end = visible_keys(a, length, row_at(rows - 1).i).end;
  for (int first = begin; first < end; first += kFp8Tile) {
    __syncthreads();
    for (int e = thread; e < kFp8Tile * kD / 16; e += kFp8Threads) {
      const int key = e / (kD / 16), chunk = e % (kD / 16), j = first + key;
      uint4 k{0, 0, 0, 0};
      if (j < length)
        k = *reinterpret_cast<const uint4*>(args.keys.data +
                                            key_offset(args.keys, place_of(a, b, j), kv_head) + 16 * chunk);
      *reinterpret_cast<uint4*>(keys + chunk * (kFp8Tile * 16) + key * 16) = k;
    }
    bool nan = false;
    for (int e = thread; e < kFp8Tile / 4 * kD / 16; e += kFp8Threads) {
      const int quad = e / (kD / 16), chunk = e % (kD / 16);  // four positions, 16 columns
      std::uint32_t rows4[4][4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int j = first + quad / 4 * 16 + 2 * (quad % 4) + n % 2 + 8 * (n / 2);
        uint4 v{0, 0, 0, 0};
        if (j < length)
          v = *reinterpret_cast<const uint4*>(
              args.values.data + key_offset(args.values, place_of(a, b, j), kv_head) + 16 * chunk);
        rows4[n][0] = v.x;
        rows4[n][1] = v.y;
        rows4[n][2] = v.z;
        rows4[n][3] = v.w;
        nan = nan || has_nan(v.x) || has_nan(v.y) || has_nan(v.z) || has_nan(v.w);
      }
      unsigned char* to = values + quad / 4 * (kD * 16) + 16 * chunk * 16 + quad % 4 * 4;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t low01 = __byte_perm(rows4[0][w], rows4[1][w], 0x5140),
                            high01 = __byte_perm(rows4[0][w], rows4[1][w], 0x7362);
        const std::uint32_t low23 = __byte_perm(rows4[2][w], rows4[3][w], 0x5140),
                            high23 = __byte_perm(rows4[2][w], rows4[3][w], 0x7362);
        *reinterpret_cast<std::uint32_t*>(to + (4 * w + 0) * 16) = __byte_perm(low01, low23, 0x5410);
        *reinterpret_cast<std::uint32_t*>(to + (4 * w + 1) * 16) = __byte_perm(low01, low23, 0x7632);
        *reinterpret_cast<std::uint32_t*>(to + (4 * w + 2) * 16) = __byte_perm(high01, high23, 0x5410);
        *reinterpret_cast<std::uint32_t*>(to + (4 * w + 3) * 16) = __byte_perm(high01, high23, 0x7632);
      }
    }
    publish_to_wgmma();
    const bool patch = __syncthreads_or(nan) != 0;

    float s[64] = {};
    pin(s);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kD / 32; ++step) {
      wgmma_e4m3(s, matrix_descriptor(queries + 2 * step * (kFp8Rows * 16), kFp8Rows * 16),
                 matrix_descriptor(keys + 2 * step * (kFp8Tile * 16), kFp8Tile * 16), step > 0);
    }
    wgmma_end();
    pin(s);

    float highest[2] = {minus_infinity(), minus_infinity()};
#pragma unroll
    for (int n = 0; n < kFp8Tile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = e / 2, j = first + 8 * n + 2 * t + e % 2;
        float& x = s[4 * n + e];
        x = sees(r, j) ? logit[r](x, slope[r], position[r], j) : minus_infinity();
        highest[r] = fmaxf(highest[r], x);
      }
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int mask = 1; mask < 4; mask *= 2)
        highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xFFFFFFFFU, highest[r], mask));
      const float risen = fmaxf(top[r], highest[r]);
      const float shift = risen == minus_infinity() ? 0.0F : risen;
      factor[r] = risen == top[r] ? 1.0F : exp2_approx(top[r] - shift);
      top[r] = risen;
      sum[r] *= factor[r];
#pragma unroll
      for (int n = 0; n < kFp8Tile / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * n + 2 * r + e];
          x = exp2_approx(x - shift);
          sum[r] += x;
          x *= kWeightScale;
        }
      }
    }
    std::uint32_t p[kFp8Tile / 32][4];
#pragma unroll
    for (int step = 0; step < kFp8Tile / 32; ++step) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float* x = s + 4 * (4 * step + 2 * u) + 2 * r;  // of two neighbouring blocks of 8 keys
          p[step][2 * u + r] = to_e4m3(x[0], x[1]) | to_e4m3(x[4], x[5]) << 16;
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out[4 * n + e] *= factor[e / 2];
        if constexpr (kPromoteTiles > 1) chain[4 * n + e] *= factor[e / 2];
      }
    }
    if (patch) {
      for (int j = first; j < first + kFp8Tile && j < length; ++j) {
        const int in32 = (j - first) % 16,
                  at = (j - first) / 16 * 16 + in32 % 8 / 2 * 4 + in32 / 8 * 2 + in32 % 2;
        for (int r = 0; r < 2; ++r) {
          if (!sees(r, j)) continue;
#pragma unroll
          for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int c = 8 * n + 2 * t + e;
              if ((values[at / 16 * (kD * 16) + c * 16 + at % 16] & 0x7F) != 0x7F) continue;
              if (r == 0) {
                out[4 * n + e] = quiet_nan();
              } else {
                out[4 * n + 2 + e] = quiet_nan();
              }
            }
          }
        }
      }
      __syncthreads();
      for (int e = thread; e < kD * kFp8Tile; e += kFp8Threads) {
        if ((values[e] & 0x7F) == 0x7F) values[e] = 0;
      }
      publish_to_wgmma();
      __syncthreads();
    }
    const auto v_step = [&](int step) { return matrix_descriptor(values + 2 * step * (kD * 16), kD * 16); };
#pragma unroll
    for (int step = 0; step < kFp8Tile / 32; ++step) pin(p[step]);
    if constexpr (!kTwoLevels) {
      pin(out);
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < kFp8Tile / 32; ++step) wgmma_e4m3(out, p[step], v_step(step), true);
      wgmma_end();
      pin(out);
    } else {
      constexpr int kSteps = kPromote < kFp8Tile ? 1 : kFp8Tile / 32;  // between two promotions inside a tile
      static_assert(kPromote == 32 || kPromote % kFp8Tile == 0);
#pragma unroll
      for (int first_step = 0; first_step < kFp8Tile / 32; first_step += kSteps) {
        pin(chain);
        wgmma_begin();
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          wgmma_e4m3(chain, p[first_step + step], v_step(first_step + step), step > 0 || chained > 0);
        }
        wgmma_end();
        pin(chain);
        if (kSteps > 1 && ++chained < kPromoteTiles) continue;
        chained = 0;
#pragma unroll
        for (int n = 0; n < kD / 2; ++n) out[n] += chain[n];
      }
    }
  }
  if constexpr (kTwoLevels) {
    if (chained > 0) {
#pragma unroll
      for (int n = 0; n < kD / 2; ++n) out[n] += chain[n];
    }
  }

  const float v_scale = scale_of(args.v_scale, kv_head) / kWeightScale;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    for (int mask = 1; mask < 4; mask *= 2) sum[r] += __shfl_xor_sync(0xFFFFFFFFU, sum[r], mask);
    if (own[r] >= rows) continue;
    const Row row = row_at(own[r]);
    const float last = add_sink(a, row.h, top[r], sum[r]);
    unsigned char* to = a.out.data + query_offset(a.out, b, row.i, row.h);
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float x = sum[r] != 0 ? out[4 * n + 2 * r + e] * last / sum[r] * v_scale : 0.0F;
        store_element(to + (8 * n + 2 * t + e) * dtype_bytes(a.dtype), a.dtype, x);
      }
    }
  }
#endif
}

}  // namespace assay_gpu
