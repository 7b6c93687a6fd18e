// The layer's place in the chain of Vulkan calls: what lies below it, per instance and device, and the calls
// that it takes.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "harness/witness/vulkan/recorder.hpp"

namespace assay_witness {

// What the layer calls of the next one down.
// clang-format off
#define ASSAY_NEXT(X) \
  X(DestroyDevice) \
  X(CreateShaderModule) \
  X(DestroyShaderModule) \
  X(CreateComputePipelines) \
  X(DestroyPipeline) \
  X(CreateBuffer) \
  X(DestroyBuffer) \
  X(GetBufferMemoryRequirements) \
  X(AllocateMemory) \
  X(FreeMemory) \
  X(BindBufferMemory) \
  X(MapMemory) \
  X(BeginCommandBuffer) \
  X(ResetCommandBuffer) \
  X(CmdBindPipeline) \
  X(CmdDispatch) \
  X(CmdDispatchBase) \
  X(CmdDispatchIndirect) \
  X(CmdExecuteCommands) \
  X(CmdCopyBuffer) \
  X(CmdPipelineBarrier) \
  X(QueueSubmit) \
  X(DeviceWaitIdle)
// clang-format on

// Grids of indirect dispatches are copied here by the device, in front of each.
constexpr std::uint32_t kIndirectSlots = 4096;

struct DeviceState {
  VkDevice device = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr next_proc = nullptr;
#define X(name) PFN_vk##name name = nullptr;
  ASSAY_NEXT(X)
#undef X
  PFN_vkQueueSubmit2 QueueSubmit2 = nullptr;
  VkPhysicalDeviceMemoryProperties memory_types{};
  VkBuffer grids = VK_NULL_HANDLE;
  VkDeviceMemory grids_memory = VK_NULL_HANDLE;
  const std::uint32_t* mapped_grids = nullptr;
  std::uint32_t next_slot = 0;
};

struct InstanceState {
  PFN_vkGetInstanceProcAddr next_proc = nullptr;
  PFN_vkDestroyInstance DestroyInstance = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties GetPhysicalDeviceMemoryProperties = nullptr;
};

// Held around everything that the layer remembers.
std::mutex& mutex();
std::map<void*, InstanceState>& instances();
std::map<void*, DeviceState>& devices();
// Dispatchable handles begin with the loader's table, which all objects of one instance or device share.
inline void* key(const void* handle) { return *static_cast<void* const*>(handle); }
inline DeviceState& device_of(const void* handle) { return devices()[key(handle)]; }
inline Recorder& recorder() { return Recorder::instance(); }

// chain.cpp
VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* instance);
VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator);
VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device);
VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator);

// commands.cpp
VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkShaderModule* module);
VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache,
                                                        std::uint32_t count,
                                                        const VkComputePipelineCreateInfo* infos,
                                                        const VkAllocationCallbacks* allocator,
                                                        VkPipeline* pipelines);
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkBuffer* buffer);
VKAPI_ATTR VkResult VKAPI_CALL begin_command_buffer(VkCommandBuffer commands,
                                                    const VkCommandBufferBeginInfo* info);
VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                         VkPipeline pipeline);
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                    std::uint32_t z);
VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer commands, std::uint32_t x0, std::uint32_t y0,
                                         std::uint32_t z0, std::uint32_t x, std::uint32_t y, std::uint32_t z);
VKAPI_ATTR void VKAPI_CALL dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset);
VKAPI_ATTR void VKAPI_CALL execute_commands(VkCommandBuffer commands, std::uint32_t count,
                                            const VkCommandBuffer* secondary);
VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits,
                                            VkFence fence);
VKAPI_ATTR VkResult VKAPI_CALL queue_submit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* submits,
                                             VkFence fence);

}  // namespace assay_witness
