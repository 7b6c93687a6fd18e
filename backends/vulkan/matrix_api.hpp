// VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16 and VK_EXT_shader_float8, for headers older than they are
// (Debian 12 has 1.3.239). Numbers: the Vulkan registry (vulkan_core.h 1.4.341).
#pragma once

#include <span>
#include <string>

#include "backends/vulkan/api.hpp"

namespace assay_vulkan {

inline constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";
inline constexpr const char* kBfloat16Extension = "VK_KHR_shader_bfloat16";
inline constexpr const char* kFloat8Extension = "VK_EXT_shader_float8";

struct MatrixFeatures {  // VkPhysicalDeviceCooperativeMatrixFeaturesKHR
  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE;
  VkBool32 robustBufferAccess = VK_FALSE;
};
struct Bfloat16Features {  // VkPhysicalDeviceShaderBfloat16FeaturesKHR
  VkStructureType sType = static_cast<VkStructureType>(1000141000);
  void* pNext = nullptr;
  VkBool32 type = VK_FALSE;
  VkBool32 dot_product = VK_FALSE;
  VkBool32 cooperative_matrix = VK_FALSE;
};
struct Float8Features {  // VkPhysicalDeviceShaderFloat8FeaturesEXT
  VkStructureType sType = static_cast<VkStructureType>(1000567000);
  void* pNext = nullptr;
  VkBool32 type = VK_FALSE;
  VkBool32 cooperative_matrix = VK_FALSE;
};
// VkComponentTypeKHR and VkScopeKHR
enum MatrixComponent : std::int32_t {
  kFloat16 = 0,
  kFloat32 = 1,
  kSint8 = 3,
  kSint32 = 5,
  kBfloat16 = 1000141000,
  kFloat8E4m3 = 1000491002
};
inline constexpr std::int32_t kSubgroupScope = 3;
struct MatrixShape {  // VkCooperativeMatrixPropertiesKHR
  VkStructureType sType = static_cast<VkStructureType>(1000506001);
  void* pNext = nullptr;
  std::uint32_t m = 0, n = 0, k = 0;
  std::int32_t a = 0, b = 0, c = 0, result = 0;
  VkBool32 saturating = VK_FALSE;
  std::int32_t scope = 0;
};

// Whether FP8 can be multiplied by cooperative matrices: what a device says of it, and what follows.
struct Float8Support {
  bool matrices = false;   // VK_KHR_cooperative_matrix, with all that the shaders on it use
  bool extension = false;  // VK_EXT_shader_float8
  Float8Features features;
  std::span<const MatrixShape> shapes;

  // Of 16 x 16 x depth, e4m3 with f32 sums, held by a subgroup: the deepest of 16 and 32; 0 where there is
  // none.
  std::uint32_t depth() const;
  std::string why_not() const;  // "" where there is one
};

using GetMatrixShapes = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, MatrixShape*);

}  // namespace assay_vulkan
