// Which device, what it can do, and what it lacks.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backends/plugin/call.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/matrix_api.hpp"

namespace assay_vulkan {
namespace {

using assay_plugin::Failed;

int preference(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    default:
      return 1;
  }
}

std::string version_text(std::uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version));
}

}  // namespace

// llvmpipe's compute threads leave subnormals as the process has them, and its subgroupAdd is a loop over the
// lanes. NVIDIA's adds neighbours first (an H100, driver 580.159.04: 512 of 512 sums in that order), but
// takes subnormals for 0, for which no schedule has a word.
std::string_view lane_fold_of(VkDriverId driver) {
  return driver == VK_DRIVER_ID_MESA_LLVMPIPE ? "sequential" : "";
}

void Device::create_instance() {
  std::uint32_t version = 0;
  check(vk_.EnumerateInstanceVersion(&version), "vkEnumerateInstanceVersion");
  if (version < VK_API_VERSION_1_3)
    throw Failed("Vulkan 1.3 is needed, the loader has " + version_text(version));
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "assay";
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  check(vk_.CreateInstance(&info, nullptr, &instance_), "vkCreateInstance (is a driver installed?)");
  vk_.load_instance(instance_);
}

void Device::pick(std::string_view wanted) {
  std::uint32_t count = 0;
  vk_.EnumeratePhysicalDevices(instance_, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  vk_.EnumeratePhysicalDevices(instance_, &count, devices.data());
  std::string names;
  int best = 0;
  for (const VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    vk_.GetPhysicalDeviceProperties2(device, &properties);
    const std::string name = properties.properties.deviceName;
    names += (names.empty() ? "" : ", ") + name;
    if (name.find(wanted) == std::string::npos) continue;
    if (preference(properties.properties.deviceType) <= best) continue;
    best = preference(properties.properties.deviceType);
    physical_ = device;
  }
  if (devices.empty()) throw Failed("no Vulkan device: no driver is installed, or none works here");
  if (best == 0)
    throw Failed("no Vulkan device is named like '" + std::string(wanted) + "'; here are: " + names);
}

void Device::examine() {
  VkPhysicalDeviceVulkan12Properties v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceVulkan13Properties v13{};
  v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES;
  VkPhysicalDeviceVulkan11Properties v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  v11.pNext = &v12;
  v12.pNext = &v13;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &v11;
  vk_.GetPhysicalDeviceProperties2(physical_, &properties);
  can_.name = properties.properties.deviceName;
  can_.api = properties.properties.apiVersion;
  if (can_.api < VK_API_VERSION_1_3)
    throw Failed(can_.name + " has Vulkan " + version_text(can_.api) + ", 1.3 is needed");
  can_.driver = std::string(v12.driverName) + " " + v12.driverInfo;
  can_.subgroup_default = v11.subgroupSize;
  can_.subgroup_min = v13.minSubgroupSize;
  can_.subgroup_max = v13.maxSubgroupSize;
  can_.largest_allocation = v11.maxMemoryAllocationSize;
  // llvmpipe ends every loop once an invocation has gone round 65535 times, and goes on with wrong numbers.
  can_.loop_limit = v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE ? 60000 : INT64_C(1) << 40;
  can_.lane_fold = lane_fold_of(v12.driverID);
  can_.shared_bytes = properties.properties.limits.maxComputeSharedMemorySize;

  VkPhysicalDeviceVulkan11Features f11{};
  f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  VkPhysicalDeviceVulkan12Features f12{};
  f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  VkPhysicalDeviceVulkan13Features f13{};
  f13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
  f11.pNext = &f12;
  f12.pNext = &f13;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &f11;
  vk_.GetPhysicalDeviceFeatures2(physical_, &features);
  const auto need = [&](bool has, const char* what) {
    if (!has) lacks_.emplace_back(what);
  };
  need(features.features.shaderInt64 != 0, "shaderInt64");
  need(features.features.shaderFloat64 != 0, "shaderFloat64");
  need(f11.storageBuffer16BitAccess != 0, "storageBuffer16BitAccess");
  need(f12.storageBuffer8BitAccess != 0, "storageBuffer8BitAccess");
  need(f12.bufferDeviceAddress != 0, "bufferDeviceAddress");
  need(f12.scalarBlockLayout != 0, "scalarBlockLayout");
  need(f13.maintenance4 != 0, "maintenance4");
  need(f13.subgroupSizeControl != 0 && f13.computeFullSubgroups != 0, "subgroupSizeControl");
  constexpr VkSubgroupFeatureFlags kSubgroup =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  need((v11.subgroupSupportedOperations & kSubgroup) == kSubgroup &&
           (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0,
       "subgroup arithmetic and shuffles in compute shaders");
  need((v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0,
       "a required subgroup size in compute shaders");
  if (!lacks_.empty()) {
    std::string text = can_.name + " lacks what every kernel here needs:";
    for (const std::string& what : lacks_) text += " " + what + ",";
    text.pop_back();
    throw Failed(text);
  }
  can_.half_arithmetic = f12.shaderFloat16 != 0;
  can_.integer_dot = f13.shaderIntegerDotProduct != 0;
  examine_matrices(f12);

  // Execution modes: NaN and Inf are kept, results round to nearest even, subnormals stay where the device
  // can.
  constexpr std::uint32_t kDenormPreserve = 4459, kSignedZeroInfNanPreserve = 4461, kRoundingModeRte = 4462;
  const auto mode = [&](bool has, std::uint32_t which, std::uint32_t capability, std::uint32_t width) {
    if (has) float_controls_.insert(float_controls_.end(), {which, capability, width});
  };
  can_.denormals_preserved = v12.shaderDenormPreserveFloat32 != 0;
  mode(can_.denormals_preserved, kDenormPreserve, 4464, 32);
  mode(v12.shaderSignedZeroInfNanPreserveFloat32 != 0, kSignedZeroInfNanPreserve, 4466, 32);
  mode(v12.shaderRoundingModeRTEFloat32 != 0, kRoundingModeRte, 4467, 32);
  if (v12.roundingModeIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL) {
    mode(v12.shaderSignedZeroInfNanPreserveFloat64 != 0, kSignedZeroInfNanPreserve, 4466, 64);
    mode(v12.shaderRoundingModeRTEFloat64 != 0, kRoundingModeRte, 4467, 64);
  }
}

void Device::create_device() {
  std::uint32_t count = 0;
  vk_.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk_.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  for (family_ = 0; family_ < count && (families[family_].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0;) ++family_;
  if (family_ == count) throw Failed(can_.name + " has no compute queue");

  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceVulkan13Features f13{};
  f13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
  f13.subgroupSizeControl = VK_TRUE;
  f13.computeFullSubgroups = VK_TRUE;
  f13.maintenance4 = VK_TRUE;  // the workgroup's size is a specialisation constant
  f13.shaderIntegerDotProduct = can_.integer_dot ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceVulkan12Features f12{};
  f12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  f12.pNext = &f13;
  f12.storageBuffer8BitAccess = VK_TRUE;
  f12.bufferDeviceAddress = VK_TRUE;
  f12.scalarBlockLayout = VK_TRUE;
  f12.shaderFloat16 = can_.half_arithmetic ? VK_TRUE : VK_FALSE;
  MatrixFeatures matrix;
  Bfloat16Features bfloat;
  Float8Features float8;
  std::vector<const char*> extensions;
  if (can_.matrices()) {
    matrix.cooperativeMatrix = VK_TRUE;
    f13.pNext = &matrix;
    extensions.push_back(kMatrixExtension);
    f12.shaderInt8 = VK_TRUE;
    f12.vulkanMemoryModel = VK_TRUE;
  }
  if (can_.matrix_bf16) {
    bfloat.type = VK_TRUE;
    bfloat.cooperative_matrix = VK_TRUE;
    matrix.pNext = &bfloat;
    extensions.push_back(kBfloat16Extension);
  }
  if (can_.fp8_depth != 0) {
    float8.type = VK_TRUE;
    float8.cooperative_matrix = VK_TRUE;
    float8.pNext = matrix.pNext;
    matrix.pNext = &float8;
    extensions.push_back(kFloat8Extension);
  }
  VkPhysicalDeviceVulkan11Features f11{};
  f11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  f11.pNext = &f12;
  f11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &f11;
  features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = VK_TRUE;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(vk_.CreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
  vk_.load_device(device_);
  vk_.GetDeviceQueue(device_, family_, 0, &queue_);

  const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family_};
  check(vk_.CreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
  const VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                             VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  check(vk_.AllocateCommandBuffers(device_, &allocate, &commands_), "vkAllocateCommandBuffers");
  const VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, 0};
  check(vk_.CreateFence(device_, &fence, nullptr, &fence_), "vkCreateFence");
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  check(vk_.CreatePipelineLayout(device_, &layout, nullptr, &layout_), "vkCreatePipelineLayout");
}

std::string Device::description() const {
  std::string text = "Vulkan " + version_text(can_.api) + ", " + can_.name + ", " + can_.driver +
                     ", subgroups of " + std::to_string(subgroup_);
  if (can_.subgroup_min != can_.subgroup_max) {
    text += " (" + std::to_string(can_.subgroup_min) + " to " + std::to_string(can_.subgroup_max) + ")";
  }
  text += can_.denormals_preserved ? ", f32 subnormals kept" : ", f32 subnormals may be flushed";
  if (!can_.half_arithmetic) text += ", no f16 arithmetic";
  if (!can_.integer_dot) text += ", no integer dot products";
  if (!can_.matrices()) {
    text += ", no cooperative matrices";
  } else {
    text += ", cooperative matrices:";
    if (can_.matrix_f16) text += " f16";
    if (can_.matrix_bf16) text += " bf16";
    if (can_.matrix_int8) text += " int8";
    text += can_.no_fp8.empty() ? " fp8" : "; not fp8: " + can_.no_fp8;
  }
  return text;
}

}  // namespace assay_vulkan
