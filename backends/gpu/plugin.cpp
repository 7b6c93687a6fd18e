// The C boundary: finds the kernel that a call's op and variant select, and turns refusals into statuses and
// reasons.
#include <optional>
#include <string>
#include <vector>

#include "backends/assay_backend.h"
#include "backends/gpu/kernels.hpp"
#include "backends/plugin/options.hpp"

#ifndef ASSAY_GPU_NAME
#define ASSAY_GPU_NAME "cuda"
#endif

namespace assay_gpu {
namespace {

using namespace assay_plugin;

struct Backend {
  DeviceInfo device;
  bool guards = true;
  std::string variants, description;
  assay_backend interface;
};

const std::vector<Kernel>& all_kernels() {
  static const std::vector<Kernel> list = [] {
    std::vector<Kernel> rows;
    for (const std::span<const Kernel> part : {op_kernels(), attention_kernels(), matrix_kernels()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return list;
}

const Kernel& select(const Call& call) {
  return select_kernel(all_kernels(), ASSAY_GPU_NAME, call, call.variant());
}

assay_status declare(void* self, const assay_call* raw, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Backend& backend = *static_cast<const Backend*>(self);
    const Call call(*raw);
    const Kernel& kernel = select(call);
    kernel.check(call, backend.device);
    return Declared{kernel.contract(call, backend.device), std::string(kernel.name(call))};
  });
}

assay_status run(void* self, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return guarded(reason, [&] {
    const Backend& backend = *static_cast<const Backend*>(self);
    const Call call(*raw);
    const Kernel& kernel = select(call);
    kernel.check(call, backend.device);
    const Trace trace(raw_trace);
    Memory memory(*raw, backend.guards);
    Run each{call, memory, trace, backend.device};
    kernel.run(each);
    memory.finish();
    trace.note("temporary_bytes", std::to_string(memory.temporary_bytes()));
  });
}

// "OP:KERNEL" for each kernel that is not hidden.
std::string variant_list() {
  std::string list;
  for (const Kernel& row : all_kernels()) {
    if (!row.hidden) list += (list.empty() ? "" : " ") + std::string(row.op) + ":" + std::string(row.variant);
  }
  return list;
}

}  // namespace
}  // namespace assay_gpu

// Options: "" or "guards=no" (no guard zones and no poison around device buffers, for compute-sanitizer).
extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  using namespace assay_gpu;
  static std::optional<Backend> device;
  const std::string_view wanted = options == nullptr ? "" : options;
  return opened(reason, [&] {
    if (!wanted.empty() && wanted != "guards=no") assay_plugin::refuse_option(wanted, "guards=no");
    Backend backend;
    backend.device = open_device();
    backend.guards = wanted.empty();
    backend.variants = variant_list();
    backend.description = backend.device.name + ", " + std::to_string(backend.device.multiprocessors) +
                          " multiprocessors, " + backend.device.version;
    device = std::move(backend);
    device->interface = {ASSAY_BACKEND_VERSION,
                         ASSAY_GPU_NAME,
                         device->description.c_str(),
                         device->variants.c_str(),
                         &*device,
                         declare,
                         run,
                         [](void*) {}};
    return &device->interface;
  });
}
