// Matrix units of AMD's GPUs as the reference models them, in the layouts of lanes that backends/hip's
// kernels believe.
#pragma once

#include <array>
#include <string_view>

#include "backends/hip/units.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

// The matrix unit `Name` in the layout of lanes `Silicon`: fragments meet in memory, each lane forms its own
// results. Layout is what the kernel around it believes, the same one unless a fault is planted.
template <class Silicon, assay_gpu::Element kElement, class Name, class Layout_ = Silicon>
struct ModelledUnit {
  using Layout = Layout_;
  using Acc = assay_gpu::Results<Layout, float>;
  using Fragment = assay_gpu::Fragment<Layout>;

  static void mma(const Fragment& a, const Fragment& b, Acc& c) {
    static std::array<Fragment, Layout::kWave> left, right;
    const int lane = static_cast<int>(threadIdx.x);
    left[static_cast<std::size_t>(lane)] = a;
    right[static_cast<std::size_t>(lane)] = b;
    __syncthreads();
    static const MatrixUnit& unit = matrix_unit(Name::kUnit);
    std::array<float, Layout::kDepth> x, y;
    gather(right, lane % 16, y);
    for (int i = 0; i < Layout::kResults; ++i) {
      gather(left, Silicon::row_of(lane, i), x);
      c.value[i] = static_cast<float>(fused_dot(unit, {x, Name::kFormat}, {y, Name::kFormat}, c.value[i]));
    }
    __syncthreads();
  }
  static std::uint32_t encode(float x) { return assay_gpu::encode_element(kElement, x); }

 private:
  // Row (of A) or column (of B) `index`, k ascending.
  static void gather(const std::array<Fragment, Layout::kWave>& of, int index,
                     std::array<float, Layout::kDepth>& out) {
    for (int lane = index; lane < Layout::kWave; lane += 16)
      for (int e = 0; e < Layout::kPerLane; ++e)
        out[static_cast<std::size_t>(Silicon::first_k(lane) + e)] =
            assay_gpu::decode_element(kElement, of[static_cast<std::size_t>(lane)].code[e]);
  }
};

struct Rdna4Fp8 {
  static constexpr std::string_view kUnit = "rdna4_fp8", kFormat = "e4m3fn";
};
struct Cdna3Fp8 {
  static constexpr std::string_view kUnit = "cdna3_fp8", kFormat = "e4m3fnuz";
};
struct Rdna4Bf16 {
  static constexpr std::string_view kUnit = "rdna4_bf16", kFormat = "bf16";
};
struct Cdna3Bf16 {
  static constexpr std::string_view kUnit = "cdna3_bf16", kFormat = "bf16";
};
struct Cdna2Bf16 {
  static constexpr std::string_view kUnit = "cdna2_bf16", kFormat = "bf16";
};
struct Rdna4F16 {  // stands in for RDNA3's, which has no model
  static constexpr std::string_view kUnit = "rdna4_f16", kFormat = "f16";
};

}  // namespace assay
