// VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16, for headers older than they are (Debian 12 has 1.3.239).
#pragma once

#include "backends/vulkan/api.hpp"

namespace assay_vulkan {

inline constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";
inline constexpr const char* kBfloat16Extension = "VK_KHR_shader_bfloat16";

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
// VkComponentTypeKHR and VkScopeKHR
enum MatrixComponent : std::int32_t {
  kFloat16 = 0,
  kFloat32 = 1,
  kSint8 = 3,
  kSint32 = 5,
  kBfloat16 = 1000141000
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
using GetMatrixShapes = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, MatrixShape*);

}  // namespace assay_vulkan
