// Vulkan without linking to it: the loader is opened when the plug-in is, so that a machine without one is a
// refusal with a reason and not a plug-in that cannot be loaded.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

namespace assay_vulkan {

// clang-format off
#define ASSAY_VK_GLOBAL(X) X(CreateInstance) X(EnumerateInstanceVersion) X(EnumerateInstanceExtensionProperties)
#define ASSAY_VK_INSTANCE(X)                                                                          \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2)                      \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties)                                  \
  X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define ASSAY_VK_DEVICE(X)                                                                            \
  X(DestroyDevice) X(GetDeviceQueue) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)  \
  X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress)          \
  X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) X(DestroyPipelineLayout)       \
  X(CreateComputePipelines) X(DestroyPipeline) X(CreateCommandPool) X(DestroyCommandPool)             \
  X(AllocateCommandBuffers) X(ResetCommandPool) X(BeginCommandBuffer) X(EndCommandBuffer)             \
  X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdDispatchIndirect) X(CmdPipelineBarrier)  \
  X(QueueSubmit) X(CreateFence) X(DestroyFence) X(WaitForFences) X(ResetFences) X(DeviceWaitIdle)
// clang-format on

struct Api {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
#define X(name) PFN_vk##name name = nullptr;
  ASSAY_VK_GLOBAL(X)
  ASSAY_VK_INSTANCE(X)
  ASSAY_VK_DEVICE(X)
#undef X
  // Each throws Failed with what is missing.
  void load_loader();
  void load_instance(VkInstance instance);
  void load_device(VkDevice device);
};

const char* result_name(VkResult result);

}  // namespace assay_vulkan
