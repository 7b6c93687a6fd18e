// Prefill on tensor cores: 64 queries of a head against tiles of 64 keys, m16n8k16 for q.k and for p.v, K and
// V in shared memory; each of four warps has 16 queries. p is rounded to the format of K and V; sums chain
// through the accumulators.
//
// A weight of 0 does not hide a V that is Inf or NaN (0 * Inf = NaN), and a query must not see what its mask
// hides. So a tile whose V is not all finite is taken in two steps: the numbers that are not finite are
// multiplied by the weights of the queries that do see them, one by one, and are then replaced by 0 for the
// matrix unit.
#include "backends/cuda/matrix_ops.hpp"
#include "backends/cuda/mma.cuh"
#include "backends/cuda/mma_attention.hpp"
#include "backends/gpu/attention_vector.cuh"

namespace assay_gpu {
namespace {

constexpr int kTile = kPrefillTile;  // keys, and queries of a block
constexpr int kThreads = 128;

struct PrefillArgs {
  AttentionArgs a;
  View keys, values;  // payloads at 16-byte addresses
};

__device__ void load_transposed(std::uint32_t (&b)[4], const std::uint16_t* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(at));
}

}  // namespace

template <class Unit, int kD>  // kD: the larger of d and dv, filled with zeros up to it
__global__ void __launch_bounds__(kThreads) attention_prefill_mma(const GPU_GRID_CONSTANT PrefillArgs args) {
  constexpr int kPitch = kD + 8;  // rows 4 banks apart
  __shared__ __align__(16) std::uint16_t keys[kTile * kPitch];
  __shared__ __align__(16) std::uint16_t values[kTile * kPitch];
  const AttentionArgs& a = args.a;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  const int h = blockIdx.y, b = blockIdx.z, kv_head = h / a.group;
  const int length = length_of(a, b);
  const int first_query = blockIdx.x * kTile + 16 * warp;
  const int query[2] = {first_query + g, first_query + g + 8};

  std::uint32_t q[kD / 16][4];
#pragma unroll
  for (int s = 0; s < kD / 16; ++s) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = query[r % 2];
      std::uint32_t pair = 0;
      for (int e = 0; e < 2; ++e) {
        const int c = 16 * s + 2 * t + r / 2 * 8 + e;
        if (i >= a.q || c >= a.d) continue;
        const unsigned char* row = a.queries.data + query_offset(a.queries, b, i, h);
        pair |= static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(row)[c]) << (16 * e);
      }
      q[s][r] = pair;
    }
  }
  const LogitScale logit(a, 1);
  const float slope = a.slopes.data == nullptr ? 0.0F : vector_f32(a.slopes, h);
  KeyInterval seen[2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    seen[r] = query[r] < a.q ? visible_keys(a, length, query[r]) : KeyInterval{0, 0};
  float top[2] = {minus_infinity(), minus_infinity()}, sum[2] = {0, 0};
  float out[kD / 8][4] = {};

  const int last_query = blockIdx.x * kTile + kTile < a.q ? blockIdx.x * kTile + kTile - 1 : a.q - 1;
  const int begin = visible_keys(a, length, blockIdx.x * kTile).begin / kTile * kTile;
  const int end = visible_keys(a, length, last_query).end;
  for (int first = begin; first < end; first += kTile) {
    __syncthreads();
    bool odd = false;  // V that is not finite
    for (int e = thread; e < kTile * kD / 8; e += kThreads) {
      const int key = e / (kD / 8), c = e % (kD / 8) * 8, j = first + key;
      uint4 k{0, 0, 0, 0}, v{0, 0, 0, 0};
      if (j < length) {
        const KeyPlace place = place_of(a, b, j);
        if (c < a.d)
          k = *reinterpret_cast<const uint4*>(args.keys.data + key_offset(args.keys, place, kv_head) + 2 * c);
        if (c < a.dv)
          v = *reinterpret_cast<const uint4*>(args.values.data + key_offset(args.values, place, kv_head) +
                                              2 * c);
      }
      *reinterpret_cast<uint4*>(keys + key * kPitch + c) = k;
      *reinterpret_cast<uint4*>(values + key * kPitch + c) = v;
      for (const std::uint32_t word : {v.x, v.y, v.z, v.w}) {
        odd = odd || (word & Unit::kExponent) == Unit::kExponent ||
              (word >> 16 & Unit::kExponent) == Unit::kExponent;
      }
    }
    const bool patch = __syncthreads_or(odd) != 0;

    float s[kTile / 8][4] = {};
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      const std::uint16_t* row = keys + (8 * n + g) * kPitch + 2 * t;
#pragma unroll
      for (int step = 0; step < kD / 16; ++step) {
        Unit::mma(s[n], q[step], *reinterpret_cast<const std::uint32_t*>(row + 16 * step),
                  *reinterpret_cast<const std::uint32_t*>(row + 16 * step + 8));
      }
    }
    float highest[2] = {minus_infinity(), minus_infinity()};
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = e / 2, j = first + 8 * n + 2 * t + e % 2;
        const bool sees = j >= seen[r].begin && j < seen[r].end && !masked_out(a, query[r], j);
        s[n][e] = sees ? logit(s[n][e], slope, length - a.q + query[r], j) : minus_infinity();
        highest[r] = fmaxf(highest[r], s[n][e]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      for (int mask = 1; mask < 4; mask *= 2)
        highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xFFFFFFFFU, highest[r], mask));
      const float risen = fmaxf(top[r], highest[r]);
      const float shift = risen == minus_infinity() ? 0.0F : risen;
      const float factor = risen == top[r] ? 1.0F : exp2_approx(top[r] - shift);
      top[r] = risen;
      sum[r] *= factor;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        out[n][2 * r] *= factor;
        out[n][2 * r + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[n][2 * r + e];
          x = exp2_approx(x - shift);
          sum[r] += x;
        }
      }
    }
    if (patch) {
      // Each quad has whole rows of weights between its lanes; each lane takes its own columns of the output.
      for (int n = 0; n < kTile / 8; ++n) {
        for (int e = 0; e < 4; ++e) {
          for (int owner = 0; owner < 4; ++owner) {
            const int r = e / 2, j = first + 8 * n + 2 * owner + e % 2;
            float weight = 0;
#pragma unroll
            for (int m = 0; m < kTile / 8; ++m) {
#pragma unroll
              for (int f = 0; f < 4; ++f) {
                if (m == n && f == e) weight = s[m][f];
              }
            }
            weight = __shfl_sync(0xFFFFFFFFU, weight, (lane & ~3) | owner);
            weight = Unit::widen(Unit::pack(weight, 0) & 0xFFFFU);
            if (j < seen[r].begin || j >= seen[r].end || masked_out(a, query[r], j)) continue;
#pragma unroll
            for (int c = 0; c < kD / 8; ++c) {
#pragma unroll
              for (int f = 0; f < 2; ++f) {
                const std::uint32_t v = values[(j - first) * kPitch + 8 * c + 2 * t + f];
                if ((v & Unit::kExponent) == Unit::kExponent) {
                  if (r == 0) {
                    out[c][f] += weight * Unit::widen(v);
                  } else {
                    out[c][2 + f] += weight * Unit::widen(v);
                  }
                }
              }
            }
          }
        }
      }
      __syncthreads();
      for (int e = thread; e < kTile * kPitch; e += kThreads) {
        if (e % kPitch < kD && (values[e] & Unit::kExponent) == Unit::kExponent) values[e] = 0;
      }
      __syncthreads();
    }
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      const std::uint32_t p[4] = {Unit::pack(s[2 * step][0], s[2 * step][1]),
                                  Unit::pack(s[2 * step][2], s[2 * step][3]),
                                  Unit::pack(s[2 * step + 1][0], s[2 * step + 1][1]),
                                  Unit::pack(s[2 * step + 1][2], s[2 * step + 1][3])};
      const std::uint16_t* rows = values + (16 * step + lane % 16) * kPitch + lane / 16 * 8;
#pragma unroll
      for (int n = 0; n < kD / 8; n += 2) {
        std::uint32_t v[4];
        load_transposed(v, rows + 8 * n);
        Unit::mma(out[n], p, v[0], v[1]);
        Unit::mma(out[n + 1], p, v[2], v[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    for (int mask = 1; mask < 4; mask *= 2) sum[r] += __shfl_xor_sync(0xFFFFFFFFU, sum[r], mask);
    if (query[r] >= a.q) continue;
    const float factor = add_sink(a, h, top[r], sum[r]);
    unsigned char* row = a.out.data + query_offset(a.out, b, query[r], h);
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = 8 * n + 2 * t + e;
        const float x = sum[r] != 0 ? out[n][2 * r + e] * factor / sum[r] : 0.0F;
        if (c < a.dv) store_element(row + c * dtype_bytes(a.dtype), a.dtype, x);
      }
    }
  }
}

namespace {

bool takes(const Call& call) {
  const std::string_view dtype = call.text("dtype");
  return (dtype == "f16" || dtype == "bf16") && call.text("k") == dtype && call.text("v") == dtype;
}
bool wide_enough(const Call& call) {
  for (const char* width : {"d", "dv"}) {
    if (call.integer(width) > 128 || call.integer(width) % 8 != 0) return false;
  }
  return true;
}

}  // namespace

bool attention_prefill_mma_chosen(const Call& call) {
  return call.integer("q") > 2 && takes(call) && wide_enough(call) && call.text("rotate") != "qkv" &&
         rows_are_vectors(call.input("k")) && rows_are_vectors(call.input("v")) &&
         call.integer("batch") <= 65535 && call.integer("heads") <= 65535;
}

void attention_prefill_mma_check(const Call& call, const DeviceInfo& device) {
  attention_check(call);
  if (!takes(call)) throw Unsupported("prefill_mma takes q, K and V all in f16 or all in bf16");
  if (!wide_enough(call)) throw Unsupported("prefill_mma takes d and dv up to 128, in multiples of 8");
  if (call.text("rotate") == "qkv")
    throw Unsupported("prefill_mma does not transform its output back: rotate=qkv");
  if (!rows_are_vectors(call.input("k")) || !rows_are_vectors(call.input("v"))) {
    throw Unsupported("prefill_mma loads 16 bytes at once: strides of K and V must be multiples of 16");
  }
  if (call.integer("batch") > 65535 || call.integer("heads") > 65535)
    throw Unsupported("more than 65535 sequences or heads");
  matrix_generation(device);
}

std::string_view attention_prefill_mma_name(const Call&) { return "attention_prefill_mma"; }

std::string attention_prefill_mma_contract(const Call& call, const DeviceInfo& device) {
  const std::string unit = std::string(matrix_generation(device)) + "_" + std::string(call.text("dtype"));
  return attention_contract(unit, call.text("dtype"), unit, kTile, call.integer("len"), 1, 16);
}

void attention_prefill_mma_run(Run& run) {
  PrefillArgs args{};
  args.a = attention_args(run);
  args.keys = aligned_payload(run, args.a.keys.payload, 2 * args.a.d);
  args.values = aligned_payload(run, args.a.values.payload, 2 * args.a.dv);
  const dim3 grid(static_cast<unsigned>((args.a.q + kTile - 1) / kTile), static_cast<unsigned>(args.a.heads),
                  static_cast<unsigned>(args.a.batch));
  const bool narrow = args.a.d <= 64 && args.a.dv <= 64;
  if (args.a.dtype == Element::f16) {
    narrow ? attention_prefill_mma<HalfUnit, 64><<<grid, kThreads>>>(args)
           : attention_prefill_mma<HalfUnit, 128><<<grid, kThreads>>>(args);
  } else {
    narrow ? attention_prefill_mma<BfloatUnit, 64><<<grid, kThreads>>>(args)
           : attention_prefill_mma<BfloatUnit, 128><<<grid, kThreads>>>(args);
  }
  run.launched("attention_prefill_mma");
}

}  // namespace assay_gpu
