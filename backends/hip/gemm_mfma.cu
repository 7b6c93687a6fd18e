// int8 products on CDNA's matrix units into int32: W4A8 and W8A8, whose operands the preparation has laid out
// as int8 (int4 sign-extended), rows padded to a multiple of 128. A wave makes 16 rows of a by 64 of b; the
// sums are exact as long as they stay below 2^31.
#include "backends/hip/unit_kernels.hpp"
#include "backends/hip/units.hpp"

namespace assay_gpu {

__global__ void __launch_bounds__(64) gemm_mfma_s8(const GPU_GRID_CONSTANT Gemm g);

#if ASSAY_GPU_HIP && !ASSAY_DEVICE_PASS
__global__ void gemm_mfma_s8(const GPU_GRID_CONSTANT Gemm) {}
#elif ASSAY_UNIT_MFMA_I8 || ASSAY_UNIT_MFMA_I8_DEEP || ASSAY_FALLBACK_WITHOUT_UNIT
namespace {

#if ASSAY_UNIT_MFMA_I8 || ASSAY_UNIT_MFMA_I8_DEEP
using Unit = MfmaI8;
#else
using Unit = IntegerUnit<LayoutMfma8>;
#endif
using Layout = Unit::Layout;

__device__ Fragment<Layout> load(const void* rows, int row, int count, int k, int at) {
  Fragment<Layout> f{};
  if (row < count) {
    const auto* from = static_cast<const unsigned char*>(rows) + static_cast<std::int64_t>(row) * k + at;
    __builtin_memcpy(f.code, __builtin_assume_aligned(from, Layout::kPerLane), sizeof f.code);
  }
  return f;
}

}  // namespace

__global__ void gemm_mfma_s8(const GPU_GRID_CONSTANT Gemm g) {
  constexpr int kColumns = 4;  // blocks of 16
  const int lane = static_cast<int>(threadIdx.x), k0 = Layout::first_k(lane);
  const int row0 = static_cast<int>(blockIdx.y) * 16, column0 = static_cast<int>(blockIdx.x) * 16 * kColumns;
  Unit::Acc sum[kColumns] = {};
  for (int k = 0; k < g.k; k += Layout::kDepth) {
    const Fragment<Layout> a = load(g.a, row0 + lane % 16, g.m, g.k, k + k0);
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      Unit::mma(a, load(g.b, column0 + c * 16 + lane % 16, g.n, g.k, k + k0), sum[c]);
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int i = 0; i < Layout::kResults; ++i) {
      const int row = row0 + Layout::row_of(lane, i), column = column0 + c * 16 + lane % 16;
      if (row < g.m && column < g.n)
        g.out[static_cast<std::int64_t>(row) * g.n + column] = static_cast<float>(sum[c].value[i]);
    }
  }
}
#endif

const GemmKernel& gemm_mfma_i8() {
  static const GemmKernel kernel = {"gemm_mfma_s8",
                                    Stored::byte,
                                    true,
                                    [](Path path) { return path == Path::codes; },
                                    [](const Product&, const DeviceInfo& device) {
                                      if (!has_mfma_i8(device))
                                        throw Unsupported("mfma_i8: " + device.name + " has no int8 MFMA");
                                    },
                                    [](const DeviceInfo&) { return std::string("acc=i32"); },
                                    [](Run&, const Gemm& g) {
                                      const dim3 grid(static_cast<unsigned>((g.n + 63) / 64),
                                                      static_cast<unsigned>((g.m + 15) / 16));
                                      gemm_mfma_s8<<<grid, 64>>>(g);
                                    }};
  return kernel;
}

}  // namespace assay_gpu
