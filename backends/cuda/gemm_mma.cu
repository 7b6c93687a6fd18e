// Products of prepared operands by warp-level matrix instructions (mma.sync): f16, bf16, e4m3fn into f32,
// int8 into int32. All four have the same fragments in bytes, lane = 4 g + t:
//   A 16 x 32 bytes  bytes 4 t .. 4 t + 3 of rows g and g + 8, then bytes 16 + 4 t .. of the same
//   B  8 x 32 bytes  bytes 4 t .. 4 t + 3 and 16 + 4 t .. of row g
//   C 16 x 8         columns 2 t, 2 t + 1 of rows g and g + 8
// A block of four warps makes 64 x 64 outputs, a warp 32 x 32; one chain of instructions over ascending k.
#include "backends/cuda/matrix_ops.hpp"
#include "backends/cuda/mma.cuh"
#include "backends/cuda/mma_bytes.cuh"
#include "backends/gpu/gpu_runtime.hpp"

namespace assay_gpu {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 128;
constexpr int kStep = 64;   // bytes of a row per round
constexpr int kPitch = 80;  // of a row in shared memory: no two rows of a fragment in one bank

template <class Sum, class Unit>
__device__ void gemm_tile(const Gemm& g, int element_bytes) {
  __shared__ __align__(16) unsigned char a[kTile][kPitch];
  __shared__ __align__(16) unsigned char b[kTile][kPitch];
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int column0 = static_cast<int>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp_row = thread / kWarp / 2 * 32;
  const int warp_column = thread / kWarp % 2 * 32;
  const int group = thread % kWarp / 4;
  const int four = thread % 4 * 4;
  const std::int64_t row_bytes = static_cast<std::int64_t>(g.k) * element_bytes;
  const auto load = [&](unsigned char(&tile)[kTile][kPitch], const void* from, int first, int rows,
                        std::int64_t at) {
    for (int i = thread; i < kTile * (kStep / 16); i += kThreads) {
      const int r = i / (kStep / 16);
      const int part = i % (kStep / 16) * 16;
      uint4 bytes = make_uint4(0, 0, 0, 0);
      if (first + r < rows)
        bytes = *reinterpret_cast<const uint4*>(static_cast<const unsigned char*>(from) +
                                                (first + r) * row_bytes + at + part);
      *reinterpret_cast<uint4*>(&tile[r][part]) = bytes;
    }
  };
  Sum sum[2][4][4] = {};
  for (std::int64_t at = 0; at < row_bytes; at += kStep) {
    load(a, g.a, row0, g.m, at);
    load(b, g.b, column0, g.n, at);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; k += 32) {
      std::uint32_t left[2][4];
      for (int i = 0; i < 2; ++i) {
        for (int part = 0; part < 4; ++part)
          left[i][part] = *reinterpret_cast<const std::uint32_t*>(
              &a[warp_row + 16 * i + group + part % 2 * 8][k + four + part / 2 * 16]);
      }
      for (int j = 0; j < 4; ++j) {
        const unsigned char* right = &b[warp_column + 8 * j + group][k + four];
        const std::uint32_t low = *reinterpret_cast<const std::uint32_t*>(right);
        const std::uint32_t high = *reinterpret_cast<const std::uint32_t*>(right + 16);
        for (int i = 0; i < 2; ++i) Unit::mma(sum[i][j], left[i], low, high);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int part = 0; part < 4; ++part) {
        const int row = row0 + warp_row + 16 * i + group + part / 2 * 8;
        const int column = column0 + warp_column + 8 * j + four / 2 + part % 2;
        if (row < g.m && column < g.n)
          g.out[static_cast<std::int64_t>(row) * g.n + column] = static_cast<float>(sum[i][j][part]);
      }
    }
  }
}

__global__ void gemm_mma_f16(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<float, HalfUnit>(g, 2); }
__global__ void gemm_mma_bf16(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<float, BfloatUnit>(g, 2); }
__global__ void gemm_mma_e4m3(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<float, E4m3Unit>(g, 1); }
__global__ void gemm_mma_s8(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<int, Int8Unit>(g, 1); }

dim3 grid_of(const Gemm& g) {
  return dim3(static_cast<unsigned>((g.n + kTile - 1) / kTile),
              static_cast<unsigned>((g.m + kTile - 1) / kTile));
}

void check_half(const Product&, const DeviceInfo& device) { matrix_generation(device); }
void check_int8(const Product&, const DeviceInfo& device) {
  if (device.major < 8) throw Unsupported("mma.sync of int8 k32 needs compute capability 8.0");
}
void check_e4m3(const Product& product, const DeviceInfo& device) {
  check_codes(product, Element::e4m3fn, "e4m3fn");
  require_hopper(device);
}

// One instruction is one block of a Hopper unit: ascending k is then the whole schedule. Elsewhere the order
// of the blocks inside an instruction is not shown.
std::string accumulator_of(const DeviceInfo& device, const char* type) {
  const std::string generation(matrix_generation(device));
  return "acc=" + generation + type + (generation == "hopper" ? " order=sequential" : " block=8 split=1");
}

// Where one instruction is one block, ascending k is one chain of blocks.
std::string schedule_of(const DeviceInfo& device, const char* type) {
  require_hopper(device);
  return "acc:" + std::string(matrix_generation(device)) + type;
}

const GemmKernel kMmaF16 = {"gemm_mma_f16",
                            Stored::half,
                            false,
                            [](Path path) { return path == Path::f16; },
                            check_half,
                            [](const DeviceInfo& d) { return accumulator_of(d, "_f16"); },
                            [](Run&, const Gemm& g) { gemm_mma_f16<<<grid_of(g), kThreads>>>(g); },
                            [](const DeviceInfo& d) { return schedule_of(d, "_f16"); }};
const GemmKernel kMmaBf16 = {"gemm_mma_bf16",
                             Stored::half,
                             false,
                             [](Path path) { return path == Path::bf16; },
                             check_half,
                             [](const DeviceInfo& d) { return accumulator_of(d, "_bf16"); },
                             [](Run&, const Gemm& g) { gemm_mma_bf16<<<grid_of(g), kThreads>>>(g); },
                             [](const DeviceInfo& d) { return schedule_of(d, "_bf16"); }};
const GemmKernel kMmaE4m3 = {
    "gemm_mma_e4m3",
    Stored::byte,
    false,
    [](Path path) { return path == Path::codes || path == Path::e4m3fn; },
    check_e4m3,
    [](const DeviceInfo&) { return std::string("acc=hopper_fp8_mma_sync order=sequential"); },
    [](Run&, const Gemm& g) { gemm_mma_e4m3<<<grid_of(g), kThreads>>>(g); },
    [](const DeviceInfo& d) { return schedule_of(d, "_fp8_mma_sync"); }};
const GemmKernel kMmaS8 = {"gemm_mma_s8",
                           Stored::byte,
                           true,
                           [](Path path) { return path == Path::codes; },
                           check_int8,
                           [](const DeviceInfo&) { return std::string("acc=i32"); },
                           [](Run&, const Gemm& g) { gemm_mma_s8<<<grid_of(g), kThreads>>>(g); },
                           [](const DeviceInfo&) { return std::string("acc:i32"); }};

}  // namespace

const GemmKernel& gemm_mma_f16_kernel() { return kMmaF16; }
const GemmKernel& gemm_mma_bf16_kernel() { return kMmaBf16; }
const GemmKernel& gemm_mma_e4m3_kernel() { return kMmaE4m3; }
const GemmKernel& gemm_mma_s8_kernel() { return kMmaS8; }

}  // namespace assay_gpu
