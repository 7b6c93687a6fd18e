// The C boundary: finds the kernel that a call's op and variant select, and turns refusals into statuses and
// reasons.
#include <optional>
#include <string>
#include <vector>

#include "backends/assay_backend.h"
#include "backends/cuda/kernels.hpp"

#ifndef ASSAY_GPU_NAME
#define ASSAY_GPU_NAME "cuda"
#endif

namespace assay_gpu {
namespace {

using assay_plugin::guarded;
using assay_plugin::kReasonBytes;
using assay_plugin::put;

struct Backend {
  DeviceInfo device;
  bool guards = true;
  std::string variants, description;
  assay_backend interface;
};

std::vector<const Kernel*> all_kernels() {
  std::vector<const Kernel*> list;
  for (const std::span<const Kernel> part : {op_kernels(), attention_kernels(), matrix_kernels()}) {
    for (const Kernel& row : part) list.push_back(&row);
  }
  return list;
}

const Kernel& select(const Call& call) {
  bool known = false;
  for (const Kernel* row : all_kernels()) {
    if (row->op != call.op()) continue;
    known = true;
    const bool wanted =
        call.variant().empty() ? row->chosen == nullptr || row->chosen(call) : row->variant == call.variant();
    if (wanted) return *row;
  }
  if (!known)
    throw Unsupported("the " ASSAY_GPU_NAME " backend has no kernel for op " + std::string(call.op()));
  throw Unsupported("op " + std::string(call.op()) + " has no kernel '" + std::string(call.variant()) + "'");
}

assay_status declare(void* self, const assay_call* raw, assay_declaration* declaration) {
  *declaration = {};
  return guarded(declaration->reason, [&] {
    const Backend& backend = *static_cast<const Backend*>(self);
    const Call call(*raw);
    const Kernel& kernel = select(call);
    kernel.check(call, backend.device);
    put(declaration->contract, kernel.contract(call, backend.device));
    put(declaration->path, kernel.name(call));
    put(declaration->promises, "deterministic=yes nan=propagate");
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
  for (const Kernel* row : all_kernels()) {
    if (!row->hidden)
      list += (list.empty() ? "" : " ") + std::string(row->op) + ":" + std::string(row->variant);
  }
  return list;
}

}  // namespace
}  // namespace assay_gpu

// Options: "" or "guards=no" (no guard zones and no poison around device buffers, for compute-sanitizer).
extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  using namespace assay_gpu;
  static std::optional<Backend> opened;
  const std::string_view wanted = options == nullptr ? "" : options;
  const assay_status status = guarded(reason, [&] {
    if (!wanted.empty() && wanted != "guards=no")
      throw Failed("the " ASSAY_GPU_NAME " backend has the option guards=no, got '" + std::string(wanted) +
                   "'");
    Backend backend;
    backend.device = open_device();
    backend.guards = wanted.empty();
    backend.variants = variant_list();
    backend.description = backend.device.name + ", " + std::to_string(backend.device.multiprocessors) +
                          " multiprocessors, " + backend.device.version;
    opened = std::move(backend);
    opened->interface = {ASSAY_BACKEND_VERSION,
                         ASSAY_GPU_NAME,
                         opened->description.c_str(),
                         opened->variants.c_str(),
                         &*opened,
                         declare,
                         run,
                         [](void*) {}};
  });
  return status == ASSAY_OK ? &opened->interface : nullptr;
}
