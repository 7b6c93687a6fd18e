// The vulkan plug-in, misused on purpose: a subject for tests. Each variant declares what the plug-in
// declares and then does something else with it:
//   honest     nothing else
//   dead_path  announces the declared kernel, runs another one (the whole cache converted to f16 first)
//   swap_k, swap_v, swap_kv, swap_codes
//              hands K, V, both or any other tensor over as the other one of e4m3fn and e4m3fnuz, as an
//              engine does that takes the encoding for a property of the platform
#include <dlfcn.h>

#include <string>
#include <vector>

#include "backends/assay_backend.h"
#include "backends/plugin/call.hpp"

namespace {

using assay_plugin::put;

const assay_backend* g_real = nullptr;

std::string swapped(const std::string& format) {
  if (format.rfind("e4m3fnuz", 0) == 0) return "e4m3fn" + format.substr(8);
  if (format.rfind("e4m3fn", 0) == 0) return "e4m3fnuz" + format.substr(6);
  return format;
}

// A call as the real plug-in is to see it; owns what it changes.
class Forwarded {
 public:
  Forwarded(const assay_call& call, const std::string& misuse)
      : call_(call),
        inputs_(call.inputs, call.inputs + call.input_count),
        outputs_(call.outputs, call.outputs + call.output_count),
        attributes_(call.attributes, call.attributes + call.attribute_count) {
    call_.variant = "";
    const auto hit = [&](const std::string& name) {
      if (misuse == "swap_k") return name == "k";
      if (misuse == "swap_v") return name == "v";
      if (misuse == "swap_kv") return name == "k" || name == "v";
      return misuse == "swap_codes";
    };
    texts_.reserve(inputs_.size() + outputs_.size() + attributes_.size());
    for (auto* tensors : {&inputs_, &outputs_}) {
      for (assay_tensor& tensor : *tensors) {
        if (hit(tensor.name)) tensor.format = texts_.emplace_back(swapped(tensor.format)).c_str();
      }
    }
    for (assay_attribute& attribute : attributes_) {
      if (hit(attribute.name)) attribute.value = texts_.emplace_back(swapped(attribute.value)).c_str();
    }
    call_.inputs = inputs_.data();
    call_.outputs = outputs_.data();
    call_.attributes = attributes_.data();
  }
  assay_call& call() { return call_; }

 private:
  assay_call call_;
  std::vector<assay_tensor> inputs_, outputs_;
  std::vector<assay_attribute> attributes_;
  std::vector<std::string> texts_;
};

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  Forwarded honest(*call, "honest");
  return g_real->declare(g_real->self, &honest.call(), declaration);
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  const std::string misuse = call->variant;
  Forwarded forwarded(*call, misuse);
  if (misuse != "dead_path") return g_real->run(g_real->self, &forwarded.call(), trace, reason);
  assay_declaration declaration;
  g_real->declare(g_real->self, &forwarded.call(), &declaration);
  trace->kernel(trace->self, declaration.path);
  const assay_trace silent{nullptr, [](void*, const char*) {}, [](void*, const char*, const char*) {}};
  forwarded.call().variant = "convert_f16";
  return g_real->run(g_real->self, &forwarded.call(), &silent, reason);
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  void* library = dlopen(ASSAY_VULKAN_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    put(reason, assay_plugin::kReasonBytes, dlerror());
    return nullptr;
  }
  g_real = reinterpret_cast<assay_backend_open_fn>(dlsym(library, "assay_backend_open"))(options, reason);
  if (g_real == nullptr) return nullptr;
  static assay_backend backend = *g_real;
  backend.name = "misuse";
  backend.variants = "honest dead_path swap_k swap_v swap_kv swap_codes";
  backend.declare = declare;
  backend.run = run;
  backend.close = [](void*) { g_real->close(g_real->self); };
  return &backend;
}
