// What is made of a shader before a driver sees it. No device is needed.
#include "backends/vulkan/shaders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backends/vulkan/device.hpp"

namespace assay_vulkan {
namespace {

constexpr std::uint32_t kDecorate = 71, kNoContraction = 42, kAdd = 129, kMultiply = 133;
constexpr std::size_t kHeader = 5;

// The ids that a module decorates NoContraction, and how many results each opcode has among them and in all.
struct Arithmetic {
  explicit Arithmetic(std::span<const std::uint32_t> words) {
    for (std::size_t i = kHeader; i < words.size(); i += words[i] >> 16) {
      const std::uint32_t opcode = words[i] & 0xFFFFU;
      if (opcode == kDecorate && words[i + 2] == kNoContraction) decorated.insert(words[i + 1]);
      if (opcode != kAdd && opcode != kMultiply) continue;
      ++all[opcode];
      if (decorated.contains(words[i + 2])) ++held[opcode];
    }
  }
  std::set<std::uint32_t> decorated;
  std::map<std::uint32_t, int> all, held;
};

TEST(VulkanShaders, no_product_or_sum_may_be_contracted) {
  for (const char* name : {"attention", "attention_merge", "matmul", "attention_matrix_f16"}) {
    if (!has_shader(name))
      continue;  // of cooperative matrices, in a build without the compiler that they need
    const Arithmetic made(shader(name)), finished(finished_module(shader(name), "renamed", {}));
    EXPECT_GT(finished.all.at(kMultiply), 3) << name;
    EXPECT_EQ(finished.held, finished.all) << name;
    EXPECT_TRUE(made.held.empty()) << name << ": what the compiler makes leaves it to the driver";
  }
}

TEST(VulkanShaders, schedules_are_declared_of_known_drivers_alone) {
  EXPECT_EQ(lane_fold_of(VK_DRIVER_ID_MESA_LLVMPIPE), "sequential");
  EXPECT_EQ(lane_fold_of(VK_DRIVER_ID_MOLTENVK), "");
  EXPECT_EQ(lane_fold_of(VK_DRIVER_ID_MESA_RADV), "");
}

}  // namespace
}  // namespace assay_vulkan
