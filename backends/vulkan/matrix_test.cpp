// Which devices multiply FP8 on cooperative matrices, and what is said of those that do not. No device is
// needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matrix_api.hpp"

namespace assay_vulkan {
namespace {

MatrixShape shape(std::uint32_t k) {
  MatrixShape s;
  s.m = s.n = 16;
  s.k = k;
  s.a = s.b = kFloat8E4m3;
  s.c = s.result = kFloat32;
  s.scope = kSubgroupScope;
  return s;
}

struct Offer {  // of a device that has all of it
  std::vector<MatrixShape> shapes{shape(16), shape(32)};
  Float8Support support;
  Offer() {
    support.matrices = support.extension = true;
    support.features.type = support.features.cooperative_matrix = VK_TRUE;
    support.shapes = shapes;
  }
};

TEST(VulkanFloat8, a_device_that_has_it_is_taken_at_its_deepest_shape) {
  Offer offer;
  EXPECT_EQ(offer.support.why_not(), "");
  EXPECT_EQ(offer.support.depth(), 32U);
  offer.support.shapes = std::span(offer.shapes).first(1);
  EXPECT_EQ(offer.support.depth(), 16U);
}

TEST(VulkanFloat8, whatever_is_missing_is_named) {
  const auto without = [](auto take_away) {
    Offer offer;
    take_away(offer);
    return offer.support.why_not();
  };
  EXPECT_EQ(without([](Offer& o) { o.support.matrices = false; }),
            "no cooperative matrices at all (VK_KHR_cooperative_matrix)");
  EXPECT_EQ(without([](Offer& o) { o.support.extension = false; }),
            "the driver does not offer VK_EXT_shader_float8");
  EXPECT_EQ(without([](Offer& o) { o.support.features.type = VK_FALSE; }),
            "VK_EXT_shader_float8 without shaderFloat8");
  EXPECT_EQ(without([](Offer& o) { o.support.features.cooperative_matrix = VK_FALSE; }),
            "VK_EXT_shader_float8 without shaderFloat8CooperativeMatrix");
}

// Shapes beside the right ones: other sums, one operand of e5m2, a workgroup's, saturating, as deep as no
// kernel here.
TEST(VulkanFloat8, a_shape_that_the_shader_does_not_form_is_none) {
  using Change = void (*)(MatrixShape&);
  constexpr Change kChanges[] = {[](MatrixShape& s) { s.c = s.result = kFloat16; },
                                 [](MatrixShape& s) { s.b = kFloat8E4m3 + 1; },
                                 [](MatrixShape& s) { s.scope = 2; },
                                 [](MatrixShape& s) { s.saturating = VK_TRUE; },
                                 [](MatrixShape& s) { s.m = 8; },
                                 [](MatrixShape& s) { s.k = 64; }};
  for (const Change change : kChanges) {
    Offer offer;
    std::for_each(offer.shapes.begin(), offer.shapes.end(), change);
    EXPECT_EQ(offer.support.depth(), 0U);
    EXPECT_NE(
        offer.support.why_not().find("none is 16x16x16 or 16x16x32 of e4m3 with f32 sums (of e4m3 it has "),
        std::string::npos);
  }
}

TEST(VulkanFloat8, the_shapes_that_there_are_instead_are_told) {
  Offer offer;
  offer.shapes[0].n = 8;
  offer.shapes[1].c = offer.shapes[1].result = kFloat16;
  EXPECT_EQ(offer.support.why_not(),
            "of its cooperative matrices none is 16x16x16 or 16x16x32 of e4m3 with f32 sums (of e4m3 it has "
            "16x8x16 "
            "components 1000491002 1 1 scope 3, 16x16x32 components 1000491002 0 0 scope 3)");
  offer.support.shapes = {};
  EXPECT_EQ(offer.support.why_not(),
            "of its cooperative matrices none is 16x16x16 or 16x16x32 of e4m3 with f32 sums");
}

TEST(VulkanFloat8, its_arithmetic_is_claimed_where_a_model_is_known) {
  Capabilities hopper, ampere, other;
  hopper.name = "NVIDIA H100 80GB HBM3";
  ampere.name = "NVIDIA A100-SXM4-40GB";  // has no FP8
  other.name = "AMD Radeon Graphics";
  EXPECT_EQ(hopper.matrix_unit("fp8"), "hopper_fp8_mma_sync");
  EXPECT_EQ(hopper.matrix_unit("f16"), "hopper_f16");
  EXPECT_EQ(ampere.matrix_unit("fp8"), "");
  EXPECT_EQ(ampere.matrix_unit("f16"), "a100_f16");
  EXPECT_EQ(other.matrix_unit("fp8"), "");
}

}  // namespace
}  // namespace assay_vulkan
