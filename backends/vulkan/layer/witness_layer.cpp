// VK_LAYER_ASSAY_witness: an explicit Vulkan layer that sees every compute dispatch that a process submits, whoever
// recorded it: entry point, specialisation constants, FNV-1a of the SPIR-V, grid (of an indirect dispatch the one
// that the device read). In assay's worker it is the witness of the vulkan backend: assay_witness_open() puts it
// into the environment that the Vulkan loader reads, assay_witness_collect() tells what was submitted since.
// In any other process VK_INSTANCE_LAYERS and VK_LAYER_PATH load it, and ASSAY_WITNESS_LOG names the file that
// gets one JSON line per dispatch when it is submitted.
// Not seen: draws, ray tracing, dispatches of device-generated commands.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "backends/vulkan/layer/recorder.hpp"

namespace assay_witness {
namespace {

constexpr const char* kLayer = "VK_LAYER_ASSAY_witness";

#define ASSAY_NEXT(X)                                                                                       \
  X(DestroyDevice) X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) X(DestroyPipeline) \
  X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory)           \
  X(BindBufferMemory) X(MapMemory) X(BeginCommandBuffer) X(ResetCommandBuffer) X(CmdBindPipeline)            \
  X(CmdDispatch) X(CmdDispatchBase) X(CmdDispatchIndirect) X(CmdExecuteCommands) X(CmdCopyBuffer)            \
  X(CmdPipelineBarrier) X(QueueSubmit) X(DeviceWaitIdle)

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

std::mutex g_mutex;
// Dispatchable handles begin with the loader's table, which all objects of one instance or device share.
void* key(const void* handle) { return *static_cast<void* const*>(handle); }
std::map<void*, InstanceState>& instances() {
  static auto* const map = new std::map<void*, InstanceState>;  // never destroyed: calls may come while a process ends
  return *map;
}
std::map<void*, DeviceState>& devices() {
  static auto* const map = new std::map<void*, DeviceState>;
  return *map;
}
DeviceState& device_of(const void* handle) { return devices()[key(handle)]; }
Recorder& recorder() { return Recorder::instance(); }

// The link of the chain that the loader put into a create info, for this layer.
template <class Link, class Info>
Link* chain_link(const Info* info, VkStructureType type) {
  auto* at = const_cast<VkBaseOutStructure*>(static_cast<const VkBaseOutStructure*>(info->pNext));
  for (; at != nullptr; at = at->pNext) {
    auto* link = reinterpret_cast<Link*>(at);
    if (at->sType == type && link->function == VK_LAYER_LINK_INFO) return link;
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator, VkInstance* instance) {
  auto* link = chain_link<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  InstanceState state;
  state.next_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(state.next_proc(VK_NULL_HANDLE, "vkCreateInstance"));
  const VkResult result = create(info, allocator, instance);
  if (result != VK_SUCCESS) return result;
  state.DestroyInstance = reinterpret_cast<PFN_vkDestroyInstance>(state.next_proc(*instance, "vkDestroyInstance"));
  state.GetPhysicalDeviceMemoryProperties = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties>(
      state.next_proc(*instance, "vkGetPhysicalDeviceMemoryProperties"));
  const std::lock_guard lock(g_mutex);
  instances()[key(*instance)] = state;
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (instance == VK_NULL_HANDLE) return;
  void* const which = key(instance);
  PFN_vkDestroyInstance next = nullptr;
  {
    const std::lock_guard lock(g_mutex);
    next = instances()[which].DestroyInstance;
    instances().erase(which);
  }
  next(instance, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info, const VkAllocationCallbacks* allocator, VkDevice* device) {
  auto* link = chain_link<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const auto next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  DeviceState state;
  state.next_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(next_instance(VK_NULL_HANDLE, "vkCreateDevice"));
  const VkResult result = create(physical, info, allocator, device);
  if (result != VK_SUCCESS) return result;
  state.device = *device;
  state.physical = physical;
#define X(name) state.name = reinterpret_cast<PFN_vk##name>(state.next_proc(*device, "vk" #name));
  ASSAY_NEXT(X)
#undef X
  state.QueueSubmit2 = reinterpret_cast<PFN_vkQueueSubmit2>(state.next_proc(*device, "vkQueueSubmit2"));
  if (state.QueueSubmit2 == nullptr) {
    state.QueueSubmit2 = reinterpret_cast<PFN_vkQueueSubmit2>(state.next_proc(*device, "vkQueueSubmit2KHR"));
  }
  const std::lock_guard lock(g_mutex);
  instances()[key(physical)].GetPhysicalDeviceMemoryProperties(physical, &state.memory_types);
  devices()[key(*device)] = state;
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (device == VK_NULL_HANDLE) return;
  DeviceState state;
  {
    const std::lock_guard lock(g_mutex);
    state = device_of(device);
    recorder().settle(state.mapped_grids);
    devices().erase(key(device));
  }
  if (state.grids != VK_NULL_HANDLE) state.DestroyBuffer(device, state.grids, nullptr);
  if (state.grids_memory != VK_NULL_HANDLE) state.FreeMemory(device, state.grids_memory, nullptr);
  state.DestroyDevice(device, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info, const VkAllocationCallbacks* allocator, VkShaderModule* module) {
  const VkResult result = device_of(device).CreateShaderModule(device, info, allocator, module);
  const std::lock_guard lock(g_mutex);
  if (result == VK_SUCCESS) recorder().module(handle_number(*module), info->pCode, info->codeSize);
  return result;
}

// Specialisation constants as numbers, ordered by their ids.
std::string constants_text(const VkSpecializationInfo* info) {
  if (info == nullptr) return "";
  std::map<std::uint32_t, std::string> values;
  for (std::uint32_t i = 0; i < info->mapEntryCount; ++i) {
    const VkSpecializationMapEntry& entry = info->pMapEntries[i];
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(info->pData) + entry.offset, std::min(entry.size, sizeof value));
    values[entry.constantID] = std::to_string(value);
  }
  std::string text;
  for (const auto& [id, value] : values) text += (text.empty() ? "" : ",") + std::to_string(id) + "=" + value;
  return text;
}

VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, std::uint32_t count, const VkComputePipelineCreateInfo* infos, const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
  const VkResult result = device_of(device).CreateComputePipelines(device, cache, count, infos, allocator, pipelines);
  const std::lock_guard lock(g_mutex);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (pipelines[i] == VK_NULL_HANDLE) continue;
    const VkPipelineShaderStageCreateInfo& stage = infos[i].stage;
    std::uint64_t hash = recorder().module_hash(handle_number(stage.module));
    for (const auto* next = static_cast<const VkBaseInStructure*>(stage.pNext); next != nullptr; next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO) continue;  // no module object: the code itself
      const auto* code = reinterpret_cast<const VkShaderModuleCreateInfo*>(next);
      hash = fnv1a(code->pCode, code->codeSize);
    }
    recorder().pipeline(handle_number(pipelines[i]), {stage.pName, constants_text(stage.pSpecializationInfo), hash});
  }
  return result;
}

// Indirect grids are copied, so their buffers are sources of transfers.
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info, const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  VkBufferCreateInfo more = *info;
  if ((more.usage & VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT) != 0) more.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
  return device_of(device).CreateBuffer(device, &more, allocator, buffer);
}

VKAPI_ATTR VkResult VKAPI_CALL begin_command_buffer(VkCommandBuffer commands, const VkCommandBufferBeginInfo* info) {
  {
    const std::lock_guard lock(g_mutex);
    recorder().begin(handle_number(commands));  // an implicit reset
  }
  return device_of(commands).BeginCommandBuffer(commands, info);
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
  if (point == VK_PIPELINE_BIND_POINT_COMPUTE) {
    const std::lock_guard lock(g_mutex);
    recorder().bind(handle_number(commands), handle_number(pipeline));
  }
  device_of(commands).CmdBindPipeline(commands, point, pipeline);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  {
    const std::lock_guard lock(g_mutex);
    recorder().dispatch(handle_number(commands), {x, y, z}, kDirect);
  }
  device_of(commands).CmdDispatch(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer commands, std::uint32_t x0, std::uint32_t y0, std::uint32_t z0, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  {
    const std::lock_guard lock(g_mutex);
    recorder().dispatch(handle_number(commands), {x, y, z}, kDirect);
  }
  device_of(commands).CmdDispatchBase(commands, x0, y0, z0, x, y, z);
}

// The buffer that takes grids, made at the first indirect dispatch. False: it cannot be had.
bool make_grids(DeviceState& state) {
  if (state.mapped_grids != nullptr) return true;
  const VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, nullptr, 0, kIndirectSlots * 12, VK_BUFFER_USAGE_TRANSFER_DST_BIT, VK_SHARING_MODE_EXCLUSIVE, 0, nullptr};
  if (state.CreateBuffer(state.device, &info, nullptr, &state.grids) != VK_SUCCESS) return false;
  VkMemoryRequirements needs;
  state.GetBufferMemoryRequirements(state.device, state.grids, &needs);
  constexpr VkMemoryPropertyFlags kShared = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  std::uint32_t type = 0;
  while (type < state.memory_types.memoryTypeCount &&
         ((needs.memoryTypeBits >> type & 1U) == 0 || (state.memory_types.memoryTypes[type].propertyFlags & kShared) != kShared)) {
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

VKAPI_ATTR void VKAPI_CALL dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
  const std::lock_guard lock(g_mutex);
  DeviceState& state = device_of(commands);
  if (make_grids(state)) {
    const std::uint32_t slot = state.next_slot++ % kIndirectSlots;
    const auto barrier = [&](VkAccessFlags from, VkAccessFlags to) {
      const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from, to};
      state.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
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

VKAPI_ATTR void VKAPI_CALL execute_commands(VkCommandBuffer commands, std::uint32_t count, const VkCommandBuffer* secondary) {
  {
    const std::lock_guard lock(g_mutex);
    for (std::uint32_t i = 0; i < count; ++i) recorder().execute(handle_number(commands), handle_number(secondary[i]));
  }
  device_of(commands).CmdExecuteCommands(commands, count, secondary);
}

VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits, VkFence fence) {
  {
    const std::lock_guard lock(g_mutex);
    for (std::uint32_t s = 0; s < count; ++s) {
      for (std::uint32_t i = 0; i < submits[s].commandBufferCount; ++i) recorder().submit(handle_number(submits[s].pCommandBuffers[i]));
    }
  }
  return device_of(queue).QueueSubmit(queue, count, submits, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL queue_submit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2* submits, VkFence fence) {
  {
    const std::lock_guard lock(g_mutex);
    for (std::uint32_t s = 0; s < count; ++s) {
      for (std::uint32_t i = 0; i < submits[s].commandBufferInfoCount; ++i) {
        recorder().submit(handle_number(submits[s].pCommandBufferInfos[i].commandBuffer));
      }
    }
  }
  return device_of(queue).QueueSubmit2(queue, count, submits, fence);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name);

PFN_vkVoidFunction own(const char* name) {
  const struct {
    const char* name;
    PFN_vkVoidFunction function;
  } rows[] = {
#define ASSAY_OWN(vulkan, function) {"vk" #vulkan, reinterpret_cast<PFN_vkVoidFunction>(function)}
      ASSAY_OWN(GetInstanceProcAddr, get_instance_proc), ASSAY_OWN(GetDeviceProcAddr, get_device_proc),
      ASSAY_OWN(CreateInstance, create_instance), ASSAY_OWN(DestroyInstance, destroy_instance),
      ASSAY_OWN(CreateDevice, create_device), ASSAY_OWN(DestroyDevice, destroy_device),
      ASSAY_OWN(CreateShaderModule, create_shader_module), ASSAY_OWN(CreateComputePipelines, create_compute_pipelines),
      ASSAY_OWN(CreateBuffer, create_buffer), ASSAY_OWN(BeginCommandBuffer, begin_command_buffer),
      ASSAY_OWN(CmdBindPipeline, bind_pipeline), ASSAY_OWN(CmdDispatch, dispatch),
      ASSAY_OWN(CmdDispatchBase, dispatch_base), ASSAY_OWN(CmdDispatchBaseKHR, dispatch_base),
      ASSAY_OWN(CmdDispatchIndirect, dispatch_indirect), ASSAY_OWN(CmdExecuteCommands, execute_commands),
      ASSAY_OWN(QueueSubmit, queue_submit), ASSAY_OWN(QueueSubmit2, queue_submit2), ASSAY_OWN(QueueSubmit2KHR, queue_submit2),
#undef ASSAY_OWN
  };
  for (const auto& row : rows) {
    if (std::strcmp(row.name, name) == 0) return row.function;
  }
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name) {
  const DeviceState& state = device_of(device);
  // What the device does not have stays absent.
  const PFN_vkVoidFunction next = state.next_proc(device, name);
  if (const PFN_vkVoidFunction mine = own(name); mine != nullptr && (next != nullptr || std::strcmp(name, "vkGetDeviceProcAddr") == 0)) return mine;
  return next;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name) {
  if (const PFN_vkVoidFunction mine = own(name)) return mine;
  if (instance == VK_NULL_HANDLE) return nullptr;
  return instances()[key(instance)].next_proc(instance, name);
}

// The folder of this library, where its manifest lies too.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return "";
  return std::filesystem::absolute(info.dli_fname).parent_path().string();
}

void add_to_list(const char* variable, const std::string& value, const char* otherwise) {
  const char* old = std::getenv(variable);
  const std::string rest = old != nullptr && *old != '\0' ? old : otherwise;
  if ((":" + rest + ":").find(":" + value + ":") != std::string::npos) return;
  setenv(variable, (rest.empty() ? value : value + ":" + rest).c_str(), 1);
}

}  // namespace
}  // namespace assay_witness

extern "C" {

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* version) {
  if (version->loaderLayerInterfaceVersion > 2) version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = assay_witness::get_instance_proc;
  version->pfnGetDeviceProcAddr = assay_witness::get_device_proc;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}

// The two functions of harness/witness/assay_witness.h.
__attribute__((visibility("default"))) const char* assay_witness_open(void) {
  using namespace assay_witness;
  static std::string reason;
  const std::string folder = own_folder();
  if (!std::filesystem::exists(folder + "/" + kLayer + ".json")) {
    reason = "no manifest " + folder + "/" + kLayer + ".json beside the witness";
    return reason.c_str();
  }
  // VK_LAYER_PATH replaces the default places, so these are named too.
  add_to_list("VK_LAYER_PATH", folder, "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/explicit_layer.d");
  add_to_list("VK_INSTANCE_LAYERS", kLayer, "");
  return nullptr;
}

__attribute__((visibility("default"))) const char* assay_witness_collect(void) {
  using namespace assay_witness;
  static std::string text;
  const std::lock_guard lock(g_mutex);
  for (auto& [which, state] : devices()) {
    state.DeviceWaitIdle(state.device);
    recorder().settle(state.mapped_grids);
  }
  text = recorder().collect();
  return text.c_str();
}

}  // extern "C"
