// The C boundary.
#include "backends/emulated/kernels.hpp"
#include "backends/emulated/variants.hpp"
#include "backends/plugin/options.hpp"
#include "reference/error.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

// The reference refuses what a unit does not take: here that is a call which is not supported.
template <typename F>
auto refusing(F f) {
  try {
    return f();
  } catch (const assay::InputError& e) {
    throw Unsupported(e.what());
  }
}

[[noreturn]] void no_op(const Call& call) {
  throw Unsupported("the emulated backend models matrix units: attention, matmul and moe, not " +
                    std::string(call.op()));
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  return assay_plugin::declared(declaration, [&] {
    const Call call(*raw);
    return refusing([&] {
      if (call.op() == "attention") return declare_attention(call);
      if (call.op() == "matmul") return declare_matmul(call);
      if (call.op() == "moe") return declare_moe(call);
      no_op(call);
    });
  });
}

assay_status run(void*, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return assay_plugin::guarded(reason, [&] {
    const Call call(*raw);
    const assay_plugin::Trace trace(raw_trace);
    trace.note("modelled", "computed by a model of the unit, not by hardware");
    refusing([&] {
      if (call.op() == "attention") return run_attention(call, trace);
      if (call.op() == "matmul") return run_matmul(call, trace);
      if (call.op() == "moe") return run_moe(call, trace);
      no_op(call);
    });
  });
}

}  // namespace
}  // namespace assay_emulated

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  return assay_plugin::opened(reason, [&] {
    assay_plugin::no_options("emulated", options);
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
  });
}
