// What is recorded and submitted.
#include <algorithm>
#include <cstring>
#include <string>

#include "harness/witness/vulkan/chain.hpp"

namespace assay_witness {

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkShaderModule* module) {
  const VkResult result = device_of(device).CreateShaderModule(device, info, allocator, module);
  const std::lock_guard lock(mutex());
  if (result == VK_SUCCESS) recorder().module(handle_number(*module), info->pCode, info->codeSize);
  return result;
}

namespace {

// Specialisation constants as numbers, ordered by their ids.
std::string constants_text(const VkSpecializationInfo* info) {
  if (info == nullptr) return "";
  std::map<std::uint32_t, std::string> values;
  for (std::uint32_t i = 0; i < info->mapEntryCount; ++i) {
    const VkSpecializationMapEntry& entry = info->pMapEntries[i];
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(info->pData) + entry.offset,
                std::min(entry.size, sizeof value));
    values[entry.constantID] = std::to_string(value);
  }
  std::string text;
  for (const auto& [id, value] : values) text += (text.empty() ? "" : ",") + std::to_string(id) + "=" + value;
  return text;
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache,
                                                        std::uint32_t count,
                                                        const VkComputePipelineCreateInfo* infos,
                                                        const VkAllocationCallbacks* allocator,
                                                        VkPipeline* pipelines) {
  const VkResult result =
      device_of(device).CreateComputePipelines(device, cache, count, infos, allocator, pipelines);
  const std::lock_guard lock(mutex());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (pipelines[i] == VK_NULL_HANDLE) continue;
    const VkPipelineShaderStageCreateInfo& stage = infos[i].stage;
    std::uint64_t hash = recorder().module_hash(handle_number(stage.module));
    for (const auto* next = static_cast<const VkBaseInStructure*>(stage.pNext); next != nullptr;
         next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO)
        continue;  // no module object: the code itself
      const auto* code = reinterpret_cast<const VkShaderModuleCreateInfo*>(next);
      hash = fnv1a(code->pCode, code->codeSize);
    }
    recorder().pipeline(handle_number(pipelines[i]),
                        {stage.pName, constants_text(stage.pSpecializationInfo), hash});
  }
  return result;
}

// Indirect grids are copied, so their buffers are sources of transfers.
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  VkBufferCreateInfo more = *info;
  if ((more.usage & VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT) != 0) more.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
  return device_of(device).CreateBuffer(device, &more, allocator, buffer);
}

VKAPI_ATTR VkResult VKAPI_CALL begin_command_buffer(VkCommandBuffer commands,
                                                    const VkCommandBufferBeginInfo* info) {
  {
    const std::lock_guard lock(mutex());
    recorder().begin(handle_number(commands));  // an implicit reset
  }
  return device_of(commands).BeginCommandBuffer(commands, info);
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                         VkPipeline pipeline) {
  if (point == VK_PIPELINE_BIND_POINT_COMPUTE) {
    const std::lock_guard lock(mutex());
    recorder().bind(handle_number(commands), handle_number(pipeline));
  }
  device_of(commands).CmdBindPipeline(commands, point, pipeline);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                    std::uint32_t z) {
  {
    const std::lock_guard lock(mutex());
    recorder().dispatch(handle_number(commands), {x, y, z}, kDirect);
  }
  device_of(commands).CmdDispatch(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer commands, std::uint32_t x0, std::uint32_t y0,
                                         std::uint32_t z0, std::uint32_t x, std::uint32_t y,
                                         std::uint32_t z) {
  {
    const std::lock_guard lock(mutex());
    recorder().dispatch(handle_number(commands), {x, y, z}, kDirect);
  }
  device_of(commands).CmdDispatchBase(commands, x0, y0, z0, x, y, z);
}

namespace {

// The buffer that takes grids, made at the first indirect dispatch. False: it cannot be had.
bool make_grids(DeviceState& state) {
  if (state.mapped_grids != nullptr) return true;
  const VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                nullptr,
                                0,
                                kIndirectSlots * 12,
                                VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                                VK_SHARING_MODE_EXCLUSIVE,
                                0,
                                nullptr};
  if (state.CreateBuffer(state.device, &info, nullptr, &state.grids) != VK_SUCCESS) return false;
  VkMemoryRequirements needs;
  state.GetBufferMemoryRequirements(state.device, state.grids, &needs);
  constexpr VkMemoryPropertyFlags kShared =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  std::uint32_t type = 0;
  while (type < state.memory_types.memoryTypeCount &&
         ((needs.memoryTypeBits >> type & 1U) == 0 ||
          (state.memory_types.memoryTypes[type].propertyFlags & kShared) != kShared)) {
    ++type;
  }
  const VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, type};
  void* mapped = nullptr;
  if (type == state.memory_types.memoryTypeCount ||
      state.AllocateMemory(state.device, &allocate, nullptr, &state.grids_memory) != VK_SUCCESS ||
      state.BindBufferMemory(state.device, state.grids, state.grids_memory, 0) != VK_SUCCESS ||
      state.MapMemory(state.device, state.grids_memory, 0, VK_WHOLE_SIZE, 0, &mapped) != VK_SUCCESS) {
    return false;
  }
  state.mapped_grids = static_cast<const std::uint32_t*>(mapped);
  return true;
}

}  // namespace

VKAPI_ATTR void VKAPI_CALL dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
  const std::lock_guard lock(mutex());
  DeviceState& state = device_of(commands);
  if (make_grids(state)) {
    const std::uint32_t slot = state.next_slot++ % kIndirectSlots;
    const auto barrier = [&](VkAccessFlags from, VkAccessFlags to) {
      const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from, to};
      state.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                               VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
    };
    barrier(VK_ACCESS_MEMORY_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT);
    const VkBufferCopy copy{offset, slot * 12, 12};
    state.CmdCopyBuffer(commands, buffer, state.grids, 1, &copy);
    barrier(VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    recorder().dispatch(handle_number(commands), {0, 0, 0}, static_cast<std::int32_t>(slot));
  } else {
    recorder().dispatch(handle_number(commands), {0, 0, 0}, kUnknownGrid);
  }
  state.CmdDispatchIndirect(commands, buffer, offset);
}

VKAPI_ATTR void VKAPI_CALL execute_commands(VkCommandBuffer commands, std::uint32_t count,
                                            const VkCommandBuffer* secondary) {
  {
    const std::lock_guard lock(mutex());
    for (std::uint32_t i = 0; i < count; ++i)
      recorder().execute(handle_number(commands), handle_number(secondary[i]));
  }
  device_of(commands).CmdExecuteCommands(commands, count, secondary);
}

VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits,
                                            VkFence fence) {
  {
    const std::lock_guard lock(mutex());
    for (std::uint32_t s = 0; s < count; ++s) {
      for (std::uint32_t i = 0; i < submits[s].commandBufferCount; ++i)
        recorder().submit(handle_number(submits[s].pCommandBuffers[i]));
    }
  }
  return device_of(queue).QueueSubmit(queue, count, submits, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL queue_submit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* submits,
                                             VkFence fence) {
  {
    const std::lock_guard lock(mutex());
    for (std::uint32_t s = 0; s < count; ++s) {
      for (std::uint32_t i = 0; i < submits[s].commandBufferInfoCount; ++i) {
        recorder().submit(handle_number(submits[s].pCommandBufferInfos[i].commandBuffer));
      }
    }
  }
  return device_of(queue).QueueSubmit2(queue, count, submits, fence);
}

}  // namespace assay_witness
