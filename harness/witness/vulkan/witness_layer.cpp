// VK_LAYER_ASSAY_witness: an explicit Vulkan layer that sees every compute dispatch that a process submits,
// whoever recorded it: entry point, specialisation constants, FNV-1a of the SPIR-V, grid (of an indirect
// dispatch the one that the device read). In assay's worker it is the witness of the vulkan backend:
// assay_witness_open() puts it into the environment that the Vulkan loader reads, assay_witness_collect()
// tells what was submitted since. In any other process VK_INSTANCE_LAYERS and VK_LAYER_PATH load it, and
// ASSAY_WITNESS_LOG names the file that gets one JSON line per dispatch when it is submitted. Not seen:
// draws, ray tracing, dispatches of device-generated commands.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "harness/witness/vulkan/chain.hpp"

namespace assay_witness {
namespace {

constexpr const char* kLayer = "VK_LAYER_ASSAY_witness";

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_proc(VkInstance instance, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc(VkDevice device, const char* name);

PFN_vkVoidFunction own(const char* name) {
  const struct {
    const char* name;
    PFN_vkVoidFunction function;
  } rows[] = {
#define ASSAY_OWN(vulkan, function) {"vk" #vulkan, reinterpret_cast<PFN_vkVoidFunction>(function)}
      ASSAY_OWN(GetInstanceProcAddr, get_instance_proc),
      ASSAY_OWN(GetDeviceProcAddr, get_device_proc),
      ASSAY_OWN(CreateInstance, create_instance),
      ASSAY_OWN(DestroyInstance, destroy_instance),
      ASSAY_OWN(CreateDevice, create_device),
      ASSAY_OWN(DestroyDevice, destroy_device),
      ASSAY_OWN(CreateShaderModule, create_shader_module),
      ASSAY_OWN(CreateComputePipelines, create_compute_pipelines),
      ASSAY_OWN(CreateBuffer, create_buffer),
      ASSAY_OWN(BeginCommandBuffer, begin_command_buffer),
      ASSAY_OWN(CmdBindPipeline, bind_pipeline),
      ASSAY_OWN(CmdDispatch, dispatch),
      ASSAY_OWN(CmdDispatchBase, dispatch_base),
      ASSAY_OWN(CmdDispatchBaseKHR, dispatch_base),
      ASSAY_OWN(CmdDispatchIndirect, dispatch_indirect),
      ASSAY_OWN(CmdExecuteCommands, execute_commands),
      ASSAY_OWN(QueueSubmit, queue_submit),
      ASSAY_OWN(QueueSubmit2, queue_submit2),
      ASSAY_OWN(QueueSubmit2KHR, queue_submit2),
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
  if (const PFN_vkVoidFunction mine = own(name);
      mine != nullptr && (next != nullptr || std::strcmp(name, "vkGetDeviceProcAddr") == 0))
    return mine;
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

// The two functions of harness/worker/assay_witness.h.
__attribute__((visibility("default"))) const char* assay_witness_open(void) {
  using namespace assay_witness;
  static std::string reason;
  const std::string folder = own_folder();
  if (!std::filesystem::exists(folder + "/" + kLayer + ".json")) {
    reason = "no manifest " + folder + "/" + kLayer + ".json beside the witness";
    return reason.c_str();
  }
  // VK_LAYER_PATH replaces the default places, so these are named too.
  add_to_list("VK_LAYER_PATH", folder,
              "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/explicit_layer.d");
  add_to_list("VK_INSTANCE_LAYERS", kLayer, "");
  return nullptr;
}

__attribute__((visibility("default"))) const char* assay_witness_collect(void) {
  using namespace assay_witness;
  static std::string text;
  const std::lock_guard lock(mutex());
  for (auto& [which, state] : devices()) {
    state.DeviceWaitIdle(state.device);
    recorder().finish(state.mapped_grids);
  }
  text = recorder().collect();
  return text.c_str();
}

}  // extern "C"
