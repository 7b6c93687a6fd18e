// AMD's product kernels, lane by lane on a CPU, with the unit replaced by the reference's model of it: every
// output is the model's chain over ascending k, bit for bit. What only hardware can show, that the builtin is
// that unit in that layout, is not shown here.
#include "backends/hip/unit_gemm.cuh"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "cases/studies/lanes/modelled_unit.hpp"

namespace assay {
namespace {

constexpr int kM = 19, kN = 70, kK = 128;  // one full block and a ragged one of each side

template <class Silicon_, assay_gpu::Element kElement_, class Name_>
struct Kernel {
  using Silicon = Silicon_;
  using Name = Name_;
  static constexpr assay_gpu::Element kElement = kElement_;
};
using WmmaFp8 = Kernel<assay_gpu::LayoutWmma8, assay_gpu::Element::e4m3fn, Rdna4Fp8>;
using WmmaBf16 = Kernel<assay_gpu::LayoutWmma16Half, assay_gpu::Element::bf16, Rdna4Bf16>;
using MfmaFp8 = Kernel<assay_gpu::LayoutMfma8, assay_gpu::Element::e4m3fnuz, Cdna3Fp8>;
using MfmaBf16 = Kernel<assay_gpu::LayoutMfma16, assay_gpu::Element::bf16, Cdna3Bf16>;
using MfmaBf16OfCdna2 = Kernel<assay_gpu::LayoutMfma16, assay_gpu::Element::bf16, Cdna2Bf16>;

// How many of the outputs are not the model's, bit for bit; `Believed` is the layout that the kernel goes by.
template <class K, class Believed = typename K::Silicon>
int differing() {
  using Unit = ModelledUnit<typename K::Silicon, K::kElement, typename K::Name, Believed>;
  using Code = typename Believed::Code;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto codes = [&](int rows) {
    std::vector<Code> all(static_cast<std::size_t>(rows) * kK);
    for (Code& code : all) code = static_cast<Code>(assay_gpu::encode_element(K::kElement, normal(random)));
    return all;
  };
  // The kernel loads whole fragments: as far aligned as the device's memory is.
  alignas(64) static std::array<Code, static_cast<std::size_t>(kM) * kK> a;
  alignas(64) static std::array<Code, static_cast<std::size_t>(kN) * kK> b;
  std::ranges::copy(codes(kM), a.begin());
  std::ranges::copy(codes(kN), b.begin());
  std::vector<float> out(static_cast<std::size_t>(kM) * kN, std::nanf(""));
  const assay_gpu::Gemm gemm{a.data(), b.data(), out.data(), kM, kN, kK};
  lanes::launch({(kN + 63) / 64, (kM + 15) / 16, 1}, Believed::kWave,
                [&] { assay_gpu::multiply_on_unit<Unit>(gemm); });

  const MatrixUnit& unit = matrix_unit(K::Name::kUnit);
  int count = 0;
  for (std::size_t i = 0; i < kM; ++i) {
    for (std::size_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < kK; k += Believed::kDepth) {
        std::array<float, Believed::kDepth> x, y;
        for (std::size_t e = 0; e < Believed::kDepth; ++e) {
          x[e] = assay_gpu::decode_element(K::kElement, a[i * kK + k + e]);
          y[e] = assay_gpu::decode_element(K::kElement, b[j * kK + k + e]);
        }
        sum = static_cast<float>(fused_dot(unit, {x, K::Name::kFormat}, {y, K::Name::kFormat}, sum));
      }
      if (std::bit_cast<std::uint32_t>(sum) != std::bit_cast<std::uint32_t>(out[i * kN + j])) ++count;
    }
  }
  return count;
}

template <class K>
class UnitGemm : public ::testing::Test {};
using Kernels = ::testing::Types<WmmaFp8, WmmaBf16, MfmaFp8, MfmaBf16, MfmaBf16OfCdna2>;
TYPED_TEST_SUITE(UnitGemm, Kernels);

TYPED_TEST(UnitGemm, every_output_is_the_models_chain_bit_for_bit) { EXPECT_EQ(differing<TypeParam>(), 0); }

// Planted: results read as those of the older unit of the same vendor lie, row 2 i + lane / 16 of gfx11 and
// its like.
template <class Silicon>
struct RowsInterleaved : Silicon {
  static int row_of(int lane, int i) { return Silicon::kWave / 16 * i + lane / 16; }
};
TYPED_TEST(UnitGemm, rows_of_results_in_another_order_are_caught) {
  using Silicon = typename TypeParam::Silicon;
  EXPECT_GT((differing<TypeParam, RowsInterleaved<Silicon>>()), kM * kN / 2);
}

// Planted: every lane loads the first k of the row.
template <class Silicon>
struct SameK : Silicon {
  static int first_k(int) { return 0; }
};
TYPED_TEST(UnitGemm, lanes_that_load_the_same_k_are_caught) {
  using Silicon = typename TypeParam::Silicon;
  EXPECT_GT((differing<TypeParam, SameK<Silicon>>()), kM * kN / 2);
}

}  // namespace
}  // namespace assay
