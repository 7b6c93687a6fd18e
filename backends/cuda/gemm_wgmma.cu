// Products of prepared e4m3fn operands by Hopper's warpgroup instruction (wgmma.mma_async m64n64k32),
// compiled for sm_90a alone. One chain of instructions over ascending k, or promoted: every `promote` blocks
// of 32 the accumulator is added to one in f32 and starts again from zero. A block of four warps makes 64 x
// 64 outputs.
#include "backends/cuda/matrix_ops.hpp"
#include "backends/gpu/gpu_runtime.hpp"

namespace assay_gpu {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 128;
constexpr int kStep = 128;  // bytes of a row per round: four instructions
constexpr int kCore = 128;  // bytes of a core matrix: 8 rows of 16 bytes
constexpr int kSums = 32;   // of a thread

// Operands in shared memory without swizzle: the core matrix of rows 8 r.. and bytes 16 c.. is number 8 c +
// r.
__device__ int tile_offset(int row, int byte) {
  return (byte / 16 * (kTile / 8) + row / 8) * kCore + row % 8 * 16 + byte % 16;
}

// Leading offset: between core matrices that are neighbours along k; stride offset: along the rows.
__device__ std::uint64_t descriptor(const unsigned char* tile) {
  const std::uint64_t address = static_cast<std::uint64_t>(__cvta_generic_to_shared(tile));
  constexpr std::uint64_t kLeading = kTile / 8 * kCore;
  constexpr std::uint64_t kStride = kCore;
  return (address & 0x3FFFF) >> 4 | kLeading >> 4 << 16 | kStride >> 4 << 32;
}

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// d = (keep ? d : 0) + a b.
__device__ void wgmma_e4m3(float (&d)[kSums], std::uint64_t a, std::uint64_t b, int keep) {
  asm volatile(
      "{\n"
      ".reg .pred keep;\n"
      "setp.ne.b32 keep, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, keep, 1, 1;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(keep));
}

__device__ void load_tile(unsigned char* tile, const void* from, int first, int rows, std::int64_t row_bytes,
                          std::int64_t at) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * (kStep / 16); i += kThreads) {
    const int r = i / (kStep / 16);
    const int part = i % (kStep / 16) * 16;
    uint4 bytes = make_uint4(0, 0, 0, 0);
    if (first + r < rows)
      bytes = *reinterpret_cast<const uint4*>(static_cast<const unsigned char*>(from) +
                                              (first + r) * row_bytes + at + part);
    *reinterpret_cast<uint4*>(tile + tile_offset(r, part)) = bytes;
  }
}

struct Tile {
  unsigned char* a;
  unsigned char* b;
};

__device__ void load_round(const Gemm& g, const Tile& tile, int at) {
  load_tile(tile.a, g.a, static_cast<int>(blockIdx.y) * kTile, g.m, g.k, at);
  load_tile(tile.b, g.b, static_cast<int>(blockIdx.x) * kTile, g.n, g.k, at);
  asm volatile("fence.proxy.async.shared::cta;" ::
                   : "memory");  // the matrix unit reads by another way than threads write
  __syncthreads();
}

__device__ void multiply_block(const Tile& tile, int part, float (&sum)[kSums], int keep) {
  const int offset = part * 2 * (kTile / 8) * kCore;
  wgmma_e4m3(sum, descriptor(tile.a + offset), descriptor(tile.b + offset), keep);
}

__device__ void store_tile(const Gemm& g, const float (&sum)[kSums]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y) * kTile + thread / kWarp * 16 + thread % kWarp / 4;
  for (int i = 0; i < kSums; ++i) {
    const int r = row + i / 2 % 2 * 8;
    const int column = static_cast<int>(blockIdx.x) * kTile + i / 4 * 8 + thread % 4 * 2 + i % 2;
    if (r < g.m && column < g.n) g.out[static_cast<std::int64_t>(r) * g.n + column] = sum[i];
  }
}

__global__ void __launch_bounds__(kThreads) gemm_wgmma_e4m3(const GPU_GRID_CONSTANT Gemm g) {
  __shared__ __align__(128) unsigned char a[kTile * kStep];
  __shared__ __align__(128) unsigned char b[kTile * kStep];
  const Tile tile{a, b};
  float sum[kSums] = {};
  for (int at = 0; at < g.k; at += kStep) {
    load_round(g, tile, at);
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < kStep / 32; ++part) multiply_block(tile, part, sum, 1);
    wgmma_finish();
    __syncthreads();
  }
  store_tile(g, sum);
}

// promote: blocks of 32 between promotions.
__global__ void __launch_bounds__(kThreads)
    gemm_wgmma_e4m3_promoted(const GPU_GRID_CONSTANT Gemm g, int promote) {
  __shared__ __align__(128) unsigned char a[kTile * kStep];
  __shared__ __align__(128) unsigned char b[kTile * kStep];
  const Tile tile{a, b};
  float sum[kSums] = {};
  float total[kSums] = {};
  int blocks = 0;  // in sum
  for (int at = 0; at < g.k; at += kStep) {
    load_round(g, tile, at);
    for (int part = 0; part < kStep / 32; ++part) {
      wgmma_fence();
      multiply_block(tile, part, sum, blocks > 0);
      wgmma_finish();
      if (++blocks < promote) continue;
      for (int i = 0; i < kSums; ++i) total[i] += sum[i];
      blocks = 0;
    }
    __syncthreads();
  }
  if (blocks > 0) {
    for (int i = 0; i < kSums; ++i) total[i] += sum[i];
  }
  store_tile(g, total);
}

template <int kPromote, int kDeclared = kPromote>
const GemmKernel& kernel_of() {
  static const GemmKernel kernel = {
      kPromote == 0 ? "gemm_wgmma_e4m3" : "gemm_wgmma_e4m3_promoted",
      Stored::byte,
      false,
      [](Path path) { return path == Path::codes || path == Path::e4m3fn; },
      [](const Product& product, const DeviceInfo& device) {
        check_codes(product, Element::e4m3fn, "e4m3fn");
        require_hopper(device);
      },
      [](const DeviceInfo&) {
        return "acc=hopper_fp8 order=sequential promote=" + std::to_string(kDeclared);
      },
      [](Run&, const Gemm& g) {
        const dim3 grid(static_cast<unsigned>((g.n + kTile - 1) / kTile),
                        static_cast<unsigned>((g.m + kTile - 1) / kTile));
        if (kPromote == 0) {
          gemm_wgmma_e4m3<<<grid, kThreads>>>(g);
        } else {
          gemm_wgmma_e4m3_promoted<<<grid, kThreads>>>(g, kPromote);
        }
      },
      [](const DeviceInfo&) {  // a block is 32 elements
        return "acc:hopper_fp8" + (kDeclared == 0 ? "" : "/chunk:" + std::to_string(32 * kDeclared));
      }};
  return kernel;
}

}  // namespace

const GemmKernel& gemm_wgmma_e4m3_kernel() { return kernel_of<0>(); }
const GemmKernel& gemm_wgmma_e4m3_p1_kernel() { return kernel_of<1>(); }
const GemmKernel& gemm_wgmma_e4m3_p4_kernel() { return kernel_of<4>(); }
const GemmKernel& gemm_wgmma_e4m3_p16_kernel() { return kernel_of<16>(); }
const GemmKernel& gemm_wgmma_e4m3_p4_with_p1_kernel() { return kernel_of<1, 4>(); }

}  // namespace assay_gpu
