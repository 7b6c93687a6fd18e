#include "harness/witness/vulkan/chain.hpp"

namespace assay_witness {

// Never destroyed: calls may come while a process ends.
std::mutex& mutex() {
  static auto* const made = new std::mutex;
  return *made;
}
std::map<void*, InstanceState>& instances() {
  static auto* const map = new std::map<void*, InstanceState>;
  return *map;
}
std::map<void*, DeviceState>& devices() {
  static auto* const map = new std::map<void*, DeviceState>;
  return *map;
}

namespace {

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

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* instance) {
  auto* link = chain_link<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  InstanceState state;
  state.next_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create =
      reinterpret_cast<PFN_vkCreateInstance>(state.next_proc(VK_NULL_HANDLE, "vkCreateInstance"));
  const VkResult result = create(info, allocator, instance);
  if (result != VK_SUCCESS) return result;
  state.DestroyInstance =
      reinterpret_cast<PFN_vkDestroyInstance>(state.next_proc(*instance, "vkDestroyInstance"));
  state.GetPhysicalDeviceMemoryProperties = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties>(
      state.next_proc(*instance, "vkGetPhysicalDeviceMemoryProperties"));
  const std::lock_guard lock(mutex());
  instances()[key(*instance)] = state;
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (instance == VK_NULL_HANDLE) return;
  void* const which = key(instance);
  PFN_vkDestroyInstance next = nullptr;
  {
    const std::lock_guard lock(mutex());
    next = instances()[which].DestroyInstance;
    instances().erase(which);
  }
  next(instance, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
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
  const std::lock_guard lock(mutex());
  instances()[key(physical)].GetPhysicalDeviceMemoryProperties(physical, &state.memory_types);
  devices()[key(*device)] = state;
  return result;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (device == VK_NULL_HANDLE) return;
  DeviceState state;
  {
    const std::lock_guard lock(mutex());
    state = device_of(device);
    recorder().finish(state.mapped_grids);
    devices().erase(key(device));
  }
  if (state.grids != VK_NULL_HANDLE) state.DestroyBuffer(device, state.grids, nullptr);
  if (state.grids_memory != VK_NULL_HANDLE) state.FreeMemory(device, state.grids_memory, nullptr);
  state.DestroyDevice(device, allocator);
}

}  // namespace assay_witness
