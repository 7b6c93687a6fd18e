// Cooperative matrices: whether the device has the shapes that the shaders use, and the model of its matrix
// unit.
#include <algorithm>
#include <cstring>

#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matrix_api.hpp"

namespace assay_vulkan {

std::string Capabilities::matrix_unit(std::string_view element) const {
  const bool fp8 = element == "fp8";
  for (const char* hopper : {"H100", "H200", "GH200"}) {
    // A subgroup's FP8 is mma.sync's there: wgmma is four subgroups' together.
    if (name.find(hopper) != std::string::npos)
      return "hopper_" + std::string(element) + (fp8 ? "_mma_sync" : "");
  }
  if (name.find("A100") != std::string::npos && !fp8) return "a100_" + std::string(element);
  return "";
}

std::uint32_t Float8Support::depth() const {
  std::uint32_t deepest = 0;
  for (const MatrixShape& s : shapes) {
    const bool fits = s.scope == kSubgroupScope && s.m == 16 && s.n == 16 && (s.k == 16 || s.k == 32) &&
                      s.a == kFloat8E4m3 && s.b == kFloat8E4m3 && s.c == kFloat32 && s.result == kFloat32 &&
                      s.saturating == VK_FALSE;
    if (fits) deepest = std::max(deepest, s.k);
  }
  return deepest;
}

std::string Float8Support::why_not() const {
  if (!matrices) return std::string("no cooperative matrices at all (") + kMatrixExtension + ")";
  if (!extension) return std::string("the driver does not offer ") + kFloat8Extension;
  if (features.type == VK_FALSE) return std::string(kFloat8Extension) + " without shaderFloat8";
  if (features.cooperative_matrix == VK_FALSE)
    return std::string(kFloat8Extension) + " without shaderFloat8CooperativeMatrix";
  if (depth() != 0) return "";
  std::string listed;
  for (const MatrixShape& s : shapes) {
    if (s.a != kFloat8E4m3) continue;
    const auto text = [](auto number) { return std::to_string(number); };
    listed += (listed.empty() ? " (of e4m3 it has " : ", ") + text(s.m) + "x" + text(s.n) + "x" + text(s.k) +
              " components " + text(s.b) + " " + text(s.c) + " " + text(s.result) + " scope " +
              text(s.scope) + (s.saturating == VK_TRUE ? " saturating" : "");
  }
  return "of its cooperative matrices none is 16x16x16 or 16x16x32 of e4m3 with f32 sums" +
         (listed.empty() ? "" : listed + ")");
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
  Float8Support float8;
  can_.no_fp8 = float8.why_not();
  if (!has(kMatrixExtension)) return;
  MatrixFeatures matrix;
  Bfloat16Features bfloat;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &matrix;
  if (has(kBfloat16Extension)) matrix.pNext = &bfloat;
  float8.extension = has(kFloat8Extension);
  if (float8.extension) {
    float8.features.pNext = features.pNext;
    features.pNext = &float8.features;
  }
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
  float8.matrices = true;
  float8.shapes = shapes;
  can_.no_fp8 = float8.why_not();
  if (can_.no_fp8.empty()) can_.fp8_depth = float8.depth();
}

}  // namespace assay_vulkan
