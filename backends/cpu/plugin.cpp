// The C boundary: finds the kernel that a call's op and variant select, and turns refusals into statuses and
// reasons.
#include <algorithm>
#include <string>

#include "backends/assay_backend.h"
#include "backends/cpu/kernels.hpp"
#include "backends/plugin/options.hpp"

namespace assay_cpu {
namespace {

struct Selection {
  const Kernel* kernel;
  const Engine* engine;
};

bool names_a_kernel(std::string_view word) {
  return std::any_of(kernels().begin(), kernels().end(),
                     [&](const Kernel& row) { return !word.empty() && row.variant == word; });
}

// variant = "" | TARGET | KERNEL | KERNEL.TARGET
Selection select(const Call& call) {
  std::string_view kernel_word = call.variant();
  std::string_view target_word;
  if (const std::size_t dot = kernel_word.find('.'); dot != std::string_view::npos) {
    target_word = kernel_word.substr(dot + 1);
    kernel_word = kernel_word.substr(0, dot);
  } else if (!names_a_kernel(kernel_word)) {
    target_word = kernel_word;
    kernel_word = {};
  }
  const Engine* engine = target_word.empty() ? &best_engine() : find_engine(target_word);
  if (engine == nullptr) {
    throw Unsupported("variant '" + std::string(call.variant()) +
                      "' is not one of this machine's: see the list of variants");
  }
  return {&select_kernel(kernels(), "cpu", call, kernel_word), engine};
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Call call(*raw);
    const Selection selection = select(call);
    selection.kernel->check(call);
    return Declared{selection.kernel->contract(call, *selection.engine),
                    std::string(selection.kernel->routine)};
  });
}

assay_status run(void*, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return guarded(reason, [&] {
    const Call call(*raw);
    const Selection selection = select(call);
    selection.kernel->check(call);
    const Trace trace(raw_trace);
    trace.note("target", selection.engine->name);
    selection.kernel->run(call, *selection.engine, trace);
  });
}

// "scalar avx3 ... attention:decode attention:decode.scalar ...": targets, and for an op with several kernels
// each kernel, alone and on each target.
std::string variant_list() {
  std::string list = kScalarEngine.name;
  for (const Engine* engine : simd_engines()) list += std::string(" ") + engine->name;
  for (const Kernel& row : kernels()) {
    if (!row.listed) continue;
    const std::string word = " " + std::string(row.op) + ":" + std::string(row.variant);
    list += word + word + "." + kScalarEngine.name;
    for (const Engine* engine : simd_engines()) list += word + "." + engine->name;
  }
  return list;
}

}  // namespace
}  // namespace assay_cpu

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  return assay_plugin::opened(reason, [&] {
    assay_plugin::no_options("cpu", options);
    static const std::string variants = assay_cpu::variant_list();
    static const std::string description =
        std::string("assay's own CPU kernels, best target ") + assay_cpu::best_engine().name;
    static const assay_backend backend = {
        ASSAY_BACKEND_VERSION, "cpu",          description.c_str(), variants.c_str(), nullptr,
        assay_cpu::declare,    assay_cpu::run, [](void*) {},
    };
    return &backend;
  });
}
