#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/plugin/call.hpp"
#include "backends/plugin/options.hpp"
#include "backends/vulkan/shaders.hpp"

namespace assay_vulkan {

using assay_plugin::Failed;

void Device::check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  const std::string text = std::string(what) + ": " + result_name(result);
  if (result == VK_ERROR_DEVICE_LOST) lost_ = text;
  throw Failed(text);
}

Device::Device(std::string_view options) {
  std::string_view wanted = options;
  std::uint32_t subgroup = 0;
  if (const std::size_t plus = options.find('+'); plus != std::string_view::npos) {
    wanted = options.substr(0, plus);
    const std::string rest(options.substr(plus + 1));
    char* end = nullptr;
    if (rest.rfind("subgroup=", 0) == 0)
      subgroup = static_cast<std::uint32_t>(std::strtoul(rest.c_str() + 9, &end, 10));
    if (end == nullptr || *end != '\0' || subgroup == 0) {
      assay_plugin::refuse_option(options, "DEVICE or DEVICE+subgroup=N");
    }
  }
  setenv("XDG_RUNTIME_DIR", "/tmp", 0);  // Mesa's drivers want one
  vk_.load_loader();
  create_instance();
  pick(wanted);
  examine();
  subgroup_ = subgroup == 0 ? can_.subgroup_default : subgroup;
  if (subgroup_ < can_.subgroup_min || subgroup_ > can_.subgroup_max) {
    throw Failed("subgroups of " + std::to_string(subgroup_) + " are not offered by " + can_.name + ": " +
                 std::to_string(can_.subgroup_min) + " to " + std::to_string(can_.subgroup_max));
  }
  create_device();
}

Device::~Device() {
  if (device_ != VK_NULL_HANDLE) {
    vk_.DeviceWaitIdle(device_);
    for (const auto& [key, pipeline] : pipelines_) vk_.DestroyPipeline(device_, pipeline, nullptr);
    for (const auto& [name, module] : modules_) vk_.DestroyShaderModule(device_, module, nullptr);
    release_memory();
    vk_.DestroyPipelineLayout(device_, layout_, nullptr);
    vk_.DestroyFence(device_, fence_, nullptr);
    vk_.DestroyCommandPool(device_, pool_, nullptr);
    vk_.DestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vk_.DestroyInstance(instance_, nullptr);
}

void Device::release_memory() {
  if (buffer_ != VK_NULL_HANDLE) vk_.DestroyBuffer(device_, buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) vk_.FreeMemory(device_, memory_, nullptr);
  buffer_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  mapped_ = nullptr;
  capacity_ = 0;
}

std::byte* Device::reserve(std::uint64_t bytes) {
  if (!lost_.empty()) throw Failed("the device was lost earlier: " + lost_);
  // Kept while it fits and is not far too large.
  if (mapped_ != nullptr && bytes <= capacity_ && capacity_ <= 4 * bytes + (1U << 22)) return mapped_;
  release_memory();
  VkBufferCreateInfo info{
      VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, bytes, 0, VK_SHARING_MODE_EXCLUSIVE, 0, nullptr};
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (bytes > can_.largest_allocation) {
    throw assay_plugin::Unsupported(std::to_string(bytes) +
                                    " bytes of tensors and scratch: the device allocates at most " +
                                    std::to_string(can_.largest_allocation));
  }
  check(vk_.CreateBuffer(device_, &info, nullptr, &buffer_), "vkCreateBuffer");
  VkMemoryRequirements needs;
  vk_.GetBufferMemoryRequirements(device_, buffer_, &needs);
  VkPhysicalDeviceMemoryProperties types;
  vk_.GetPhysicalDeviceMemoryProperties(physical_, &types);
  constexpr VkMemoryPropertyFlags kShared =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  std::uint32_t chosen = types.memoryTypeCount;
  for (const VkMemoryPropertyFlags extra :
       {VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT}, VkMemoryPropertyFlags{0}}) {
    for (std::uint32_t t = 0; t < types.memoryTypeCount && chosen == types.memoryTypeCount; ++t) {
      const VkMemoryType& type = types.memoryTypes[t];
      const bool fits =
          (needs.memoryTypeBits >> t & 1U) != 0 && types.memoryHeaps[type.heapIndex].size / 2 >= needs.size;
      if (fits && (type.propertyFlags & (kShared | extra)) == (kShared | extra)) chosen = t;
    }
  }
  if (chosen == types.memoryTypeCount) {
    throw assay_plugin::Unsupported("no memory type that host and device share holds " +
                                    std::to_string(needs.size) + " bytes");
  }
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, nullptr,
                                  VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};
  const VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needs.size, chosen};
  check(vk_.AllocateMemory(device_, &allocate, nullptr, &memory_), "vkAllocateMemory");
  check(vk_.BindBufferMemory(device_, buffer_, memory_, 0), "vkBindBufferMemory");
  void* at = nullptr;
  check(vk_.MapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &at), "vkMapMemory");
  const VkBufferDeviceAddressInfo where{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, buffer_};
  address_ = vk_.GetBufferDeviceAddress(device_, &where);
  mapped_ = static_cast<std::byte*>(at);
  capacity_ = bytes;
  return mapped_;
}

VkPipeline Device::pipeline(const Dispatch& dispatch) {
  std::pair key(dispatch.name, dispatch.constants);
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) return found->second;
  auto module = modules_.find(dispatch.name);
  if (module == modules_.end()) {
    const std::vector<std::uint32_t> words =
        finished_module(shader(dispatch.shader), dispatch.name, float_controls_);
    const VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0,
                                        words.size() * 4, words.data()};
    VkShaderModule made = VK_NULL_HANDLE;
    check(vk_.CreateShaderModule(device_, &info, nullptr, &made), "vkCreateShaderModule");
    module = modules_.emplace(dispatch.name, made).first;
  }
  std::vector<std::uint32_t> values{subgroup_};
  values.insert(values.end(), dispatch.constants.begin(), dispatch.constants.end());
  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t i = 0; i < values.size(); ++i) entries.push_back({i, 4 * i, 4});
  const VkSpecializationInfo specialisation{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                            values.size() * 4, values.data()};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, nullptr, subgroup_};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.pNext = &size;
  info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module->second;
  info.stage.pName = dispatch.name.c_str();
  info.stage.pSpecializationInfo = &specialisation;
  info.layout = layout_;
  VkPipeline made = VK_NULL_HANDLE;
  check(vk_.CreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &made),
        "vkCreateComputePipelines");
  pipelines_.emplace(std::move(key), made);
  return made;
}

void Device::run(const std::vector<Dispatch>& dispatches, std::uint64_t params_at) {
  if (!lost_.empty()) throw Failed("the device was lost earlier: " + lost_);
  check(vk_.ResetCommandPool(device_, pool_, 0), "vkResetCommandPool");
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                       VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, nullptr};
  check(vk_.BeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
  const auto barrier = [&](VkPipelineStageFlags to_stage, VkAccessFlags to) {
    const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, to};
    vk_.CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to_stage, 0, 1, &memory, 0,
                           nullptr, 0, nullptr);
  };
  std::uint64_t at = params_at;
  for (const Dispatch& dispatch : dispatches) {
    std::memcpy(mapped_ + at, &dispatch.params, sizeof(Params));
    vk_.CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline(dispatch));
    const std::uint64_t params = address_ + at;
    vk_.CmdPushConstants(commands_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof params, &params);
    vk_.CmdDispatch(commands_, std::clamp(dispatch.groups, 1U, 65535U), 1, 1);
    barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    at += sizeof(Params);
  }
  barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  check(vk_.EndCommandBuffer(commands_), "vkEndCommandBuffer");
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  check(vk_.QueueSubmit(queue_, 1, &submit, fence_), "vkQueueSubmit");
  check(vk_.WaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX), "vkWaitForFences");
  check(vk_.ResetFences(device_, 1, &fence_), "vkResetFences");
}

}  // namespace assay_vulkan
