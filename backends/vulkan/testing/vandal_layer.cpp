// VK_LAYER_ASSAY_vandal: breaks what passes through it, for tests. VANDAL=lose: the device is lost at
// the second submission; grid: every dispatch asks for more workgroups than a device promises to take.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

PFN_vkGetInstanceProcAddr g_instance_proc = nullptr;
PFN_vkGetDeviceProcAddr g_device_proc = nullptr;
PFN_vkQueueSubmit g_submit = nullptr;
PFN_vkCmdDispatch g_dispatch = nullptr;

bool asked_for(const char* what) {
  const char* wanted = std::getenv("VANDAL");
  return wanted != nullptr && std::strcmp(wanted, what) == 0;
}

template <class Link, class Info>
Link* chain_link(const Info* info, VkStructureType type) {
  auto* at = const_cast<VkBaseOutStructure*>(static_cast<const VkBaseOutStructure*>(info->pNext));
  for (; at != nullptr; at = at->pNext) {
    auto* link = reinterpret_cast<Link*>(at);
    if (at->sType == type && link->function == VK_LAYER_LINK_INFO) return link;
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* instance) {
  auto* link = chain_link<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  g_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  return reinterpret_cast<PFN_vkCreateInstance>(g_instance_proc(VK_NULL_HANDLE, "vkCreateInstance"))(
      info, allocator, instance);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  auto* link = chain_link<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  const auto next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  g_device_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const VkResult result = reinterpret_cast<PFN_vkCreateDevice>(next(VK_NULL_HANDLE, "vkCreateDevice"))(
      physical, info, allocator, device);
  if (result != VK_SUCCESS) return result;
  g_submit = reinterpret_cast<PFN_vkQueueSubmit>(g_device_proc(*device, "vkQueueSubmit"));
  g_dispatch = reinterpret_cast<PFN_vkCmdDispatch>(g_device_proc(*device, "vkCmdDispatch"));
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos,
                                      VkFence fence) {
  static int submissions = 0;
  if (asked_for("lose") && ++submissions > 1) return VK_ERROR_DEVICE_LOST;
  return g_submit(queue, count, infos, fence);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                    std::uint32_t z) {
  g_dispatch(commands, asked_for("grid") ? 70000 : x, y, z);
}

PFN_vkVoidFunction own(const char* name) {
#define ASSAY_OWN(vulkan, function) \
  if (std::strcmp(name, vulkan) == 0) return reinterpret_cast<PFN_vkVoidFunction>(function)
  ASSAY_OWN("vkCreateInstance", create_instance);
  ASSAY_OWN("vkCreateDevice", create_device);
  ASSAY_OWN("vkQueueSubmit", submit);
  ASSAY_OWN("vkCmdDispatch", dispatch);
#undef ASSAY_OWN
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
  const PFN_vkVoidFunction mine = own(name);
  return mine != nullptr ? mine : g_device_proc(device, name);
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char* name) {
  if (const PFN_vkVoidFunction mine = own(name)) return mine;
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(device_proc);
  return g_instance_proc == nullptr ? nullptr : g_instance_proc(instance, name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* version) {
  if (version->loaderLayerInterfaceVersion > 2) version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = instance_proc;
  version->pfnGetDeviceProcAddr = device_proc;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
