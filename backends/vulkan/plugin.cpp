// The C boundary: finds the kernel that a call's op and variant select. options: part of a device's name,
// then
// "+subgroup=N".
#include <algorithm>
#include <memory>
#include <string>

#include "backends/assay_backend.h"
#include "backends/vulkan/kernels.hpp"

namespace assay_vulkan {
namespace {

using assay_plugin::guarded;
using assay_plugin::put;

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
  bool known = false;
  for (const Kernel& row : kernels()) {
    if (row.op != call.op()) continue;
    known = true;
    const bool wanted = call.variant().empty() ? row.chosen == nullptr || row.chosen(call, device)
                                               : row.variant == call.variant();
    if (wanted) return row;
  }
  if (!known) throw Unsupported("the vulkan backend has no kernel for op " + std::string(call.op()));
  throw Unsupported("op " + std::string(call.op()) + " has no kernel '" + std::string(call.variant()) + "'");
}

assay_status declare(void* self, const assay_call* raw, assay_declaration* declaration) {
  *declaration = {};
  return guarded(declaration->reason, [&] {
    const Device& device = static_cast<Backend*>(self)->device;
    const Call call(*raw);
    const Kernel& kernel = select(call, device);
    kernel.check(call, device);
    put(declaration->contract, kernel.contract(call, device));
    put(declaration->path, kernel.name(call, device));
    put(declaration->promises, "deterministic=yes nan=propagate");
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
  const assay_status status = assay_plugin::guarded(reason, [&] {
    backend = std::make_unique<assay_vulkan::Backend>(options == nullptr ? "" : options);
    backend->table = {ASSAY_BACKEND_VERSION,
                      "vulkan",
                      backend->description.c_str(),
                      backend->variants.c_str(),
                      backend.get(),
                      assay_vulkan::declare,
                      assay_vulkan::run,
                      [](void*) { backend.reset(); }};
  });
  return status == ASSAY_OK ? &backend->table : nullptr;
}
