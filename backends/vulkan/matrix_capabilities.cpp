// Cooperative matrices: whether the device has the shapes that the shaders use, and the model of its matrix unit.
#include <cstring>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matrix_api.hpp"

namespace assay_vulkan {

std::string Capabilities::matrix_unit(std::string_view element) const {
  for (const char* hopper : {"H100", "H200", "GH200"}) {
    if (name.find(hopper) != std::string::npos) return "hopper_" + std::string(element);
  }
  if (name.find("A100") != std::string::npos) return "a100_" + std::string(element);
  return "";
}

void Device::examine_matrices(const VkPhysicalDeviceVulkan12Features& f12) {
  std::uint32_t count = 0;
  vk_.EnumerateDeviceExtensionProperties(physical_, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk_.EnumerateDeviceExtensionProperties(physical_, nullptr, &count, extensions.data());
  const auto has = [&](const char* wanted) {
    for (const VkExtensionProperties& extension : extensions) {
      if (std::strcmp(extension.extensionName, wanted) == 0) return true;
    }
    return false;
  };
  if (!has(kMatrixExtension)) return;
  MatrixFeatures matrix;
  Bfloat16Features bfloat;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &matrix;
  if (has(kBfloat16Extension)) matrix.pNext = &bfloat;
  vk_.GetPhysicalDeviceFeatures2(physical_, &features);
  const auto shapes_of = reinterpret_cast<GetMatrixShapes>(
      vk_.GetInstanceProcAddr(instance_, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  if (matrix.cooperativeMatrix == VK_FALSE || shapes_of == nullptr || f12.shaderFloat16 == VK_FALSE ||
      f12.shaderInt8 == VK_FALSE || f12.vulkanMemoryModel == VK_FALSE) {
    return;
  }
  shapes_of(physical_, &count, nullptr);
  std::vector<MatrixShape> shapes(count);
  shapes_of(physical_, &count, shapes.data());
  for (const MatrixShape& shape : shapes) {
    if (shape.scope != kSubgroupScope || shape.m != 16 || shape.n != 16 || shape.a != shape.b ||
        shape.c != shape.result || shape.saturating == VK_TRUE) {
      continue;
    }
    can_.matrix_f16 |= shape.k == 16 && shape.a == kFloat16 && shape.c == kFloat32;
    can_.matrix_bf16 |=
        shape.k == 16 && shape.a == kBfloat16 && shape.c == kFloat32 && bfloat.cooperative_matrix == VK_TRUE;
    can_.matrix_int8 |= shape.k == 32 && shape.a == kSint8 && shape.c == kSint32;
  }
}

}  // namespace assay_vulkan
