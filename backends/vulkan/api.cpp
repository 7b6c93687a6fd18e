#include "backends/vulkan/api.hpp"

#include <dlfcn.h>

#include <string>

#include "backends/plugin/call.hpp"

namespace assay_vulkan {

using assay_plugin::Failed;

namespace {

template <class Function>
void take(Function& function, PFN_vkVoidFunction found, const char* name) {
  if (found == nullptr) throw Failed(std::string("the Vulkan driver lacks ") + name);
  function = reinterpret_cast<Function>(found);
}

}  // namespace

void Api::load_loader() {
  void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);  // stays for the life of the process
  if (library == nullptr) {
    throw Failed(std::string("no Vulkan loader: ") + dlerror() +
                 " (Debian: libvulkan1, and a driver: mesa-vulkan-drivers)");
  }
  GetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (GetInstanceProcAddr == nullptr) throw Failed("libvulkan.so.1 has no vkGetInstanceProcAddr");
#define X(name) take(name, GetInstanceProcAddr(nullptr, "vk" #name), "vk" #name);
  ASSAY_VK_GLOBAL(X)
#undef X
}

void Api::load_instance(VkInstance instance) {
#define X(name) take(name, GetInstanceProcAddr(instance, "vk" #name), "vk" #name);
  ASSAY_VK_INSTANCE(X)
#undef X
}

void Api::load_device(VkDevice device) {
#define X(name) take(name, GetDeviceProcAddr(device, "vk" #name), "vk" #name);
  ASSAY_VK_DEVICE(X)
#undef X
}

const char* result_name(VkResult result) {
  switch (result) {
#define X(name) \
  case name:    \
    return #name;
    X(VK_SUCCESS)
    X(VK_TIMEOUT)
    X(VK_ERROR_OUT_OF_HOST_MEMORY)
    X(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    X(VK_ERROR_INITIALIZATION_FAILED)
    X(VK_ERROR_DEVICE_LOST)
    X(VK_ERROR_MEMORY_MAP_FAILED)
    X(VK_ERROR_LAYER_NOT_PRESENT)
    X(VK_ERROR_EXTENSION_NOT_PRESENT)
    X(VK_ERROR_FEATURE_NOT_PRESENT)
    X(VK_ERROR_INCOMPATIBLE_DRIVER)
    X(VK_ERROR_TOO_MANY_OBJECTS)
#undef X
    default:
      return "an unlisted VkResult";
  }
}

}  // namespace assay_vulkan
