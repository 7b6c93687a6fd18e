// The C boundary: finds the kernel that a call's op and variant select, and turns refusals into statuses and
// reasons. options: part of a device's name, then "+subgroup=N".
#include <algorithm>
#include <memory>
#include <string>

#include "backends/assay_backend.h"
#include "backends/plugin/kernels.hpp"
#include "backends/vulkan/kernels.hpp"

namespace assay_vulkan {
namespace {

using namespace assay_plugin;

struct Backend {
  explicit Backend(const char* options)
      : device(options), description("assay's own Vulkan kernels: " + device.description()) {
    for (const Kernel& row : kernels()) {
      if (row.listed)
        variants +=
            std::string(variants.empty() ? "" : " ") + std::string(row.op) + ":" + std::string(row.variant);
    }
  }
  Device device;
  std::string description, variants;
  assay_backend table{};
};

const Kernel& select(const Call& call, const Device& device) {
  return select_kernel(kernels(), "vulkan", call, call.variant(), device);
}

assay_status declare(void* self, const assay_call* raw, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Device& device = static_cast<Backend*>(self)->device;
    const Call call(*raw);
    const Kernel& kernel = select(call, device);
    kernel.check(call, device);
    return Declared{kernel.contract(call, device), kernel.name(call, device)};
  });
}

assay_status run(void* self, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return guarded(reason, [&] {
    Device& device = static_cast<Backend*>(self)->device;
    const Call call(*raw);
    const Kernel& kernel = select(call, device);
    kernel.check(call, device);
    const Trace trace(raw_trace);
    trace.note("target", device.can().name);
    Session session(device, call);
    kernel.run(session, trace);
  });
}

}  // namespace
}  // namespace assay_vulkan

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  static std::unique_ptr<assay_vulkan::Backend> backend;
  return assay_plugin::opened(reason, [&] {
    backend = std::make_unique<assay_vulkan::Backend>(options == nullptr ? "" : options);
    backend->table = {ASSAY_BACKEND_VERSION,
                      "vulkan",
                      backend->description.c_str(),
                      backend->variants.c_str(),
                      backend.get(),
                      assay_vulkan::declare,
                      assay_vulkan::run,
                      [](void*) { backend.reset(); }};
    return &backend->table;
  });
}
