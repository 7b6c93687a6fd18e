// The C boundary.
#include "backends/emulated/kernels.hpp"
#include "backends/emulated/variants.hpp"
#include "reference/error.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

// The reference refuses what a unit does not take: here that is a call which is not supported.
template <typename F>
assay_status guarded(char* reason, F f) {
  return assay_plugin::guarded(reason, [&] {
    try {
      f();
    } catch (const assay::InputError& e) {
      throw Unsupported(e.what());
    }
  });
}

[[noreturn]] void no_op(const Call& call) {
  throw Unsupported("the emulated backend models matrix units: attention and matmul, not " +
                    std::string(call.op()));
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  *declaration = {};
  return guarded(declaration->reason, [&] {
    const Call call(*raw);
    if (call.op() != "attention" && call.op() != "matmul") no_op(call);
    const Declared declared = call.op() == "attention" ? declare_attention(call) : declare_matmul(call);
    assay_plugin::put(declaration->contract, declared.contract);
    assay_plugin::put(declaration->path, declared.path);
    assay_plugin::put(declaration->promises, "deterministic=yes nan=propagate");
  });
}

assay_status run(void*, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return guarded(reason, [&] {
    const Call call(*raw);
    const assay_plugin::Trace trace(raw_trace);
    trace.note("modelled", "computed by a model of the unit, not by hardware");
    if (call.op() == "attention") {
      run_attention(call, trace);
    } else if (call.op() == "matmul") {
      run_matmul(call, trace);
    } else {
      no_op(call);
    }
  });
}

}  // namespace
}  // namespace assay_emulated

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  if (options != nullptr && options[0] != '\0') {
    assay_plugin::put(reason, assay_plugin::kReasonBytes,
                      std::string("the emulated backend has no options, got '") + options + "'");
    return nullptr;
  }
  static const std::string variants = assay_emulated::variant_list();
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION,
      "emulated",
      "modelled: matrix units by the bit models of reference/arithmetic, on a CPU",
      variants.c_str(),
      nullptr,
      assay_emulated::declare,
      assay_emulated::run,
      [](void*) {},
  };
  return &backend;
}
