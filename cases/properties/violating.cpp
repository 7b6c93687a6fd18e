// A plug-in that runs another one and breaks one law behind its back: the planted violations of the property
// tests. Options: the violation. Outputs are f32, but for `policy`.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/assay_backend.h"

namespace {

struct State {
  const assay_backend* inner = nullptr;
  assay_backend outer{};
  std::string violation;
  int runs = 0;
  std::map<std::string, std::vector<char>> memory;  // op -> the first outputs
};
State state;

float* floats(const assay_tensor& t) { return static_cast<float*>(t.data); }
std::size_t count(const assay_tensor& t) {
  std::size_t n = 1;
  for (int a = 0; a < t.rank; ++a) n *= static_cast<std::size_t>(t.shape[a]);
  return n;
}
const assay_tensor* input(const assay_call& call, std::string_view name) {
  for (int i = 0; i < call.input_count; ++i)
    if (name == call.inputs[i].name) return &call.inputs[i];
  return nullptr;
}
std::string_view attribute(const assay_call& call, std::string_view name) {
  for (int i = 0; i < call.attribute_count; ++i)
    if (name == call.attributes[i].name) return call.attributes[i].value;
  return "";
}

void violate(const assay_call& call) {
  const std::string& v = state.violation;
  const assay_tensor& out = call.outputs[0];
  float* y = floats(out);
  const std::size_t n = count(out);
  if (v == "gain") {  // every output 1 % too large
    for (std::size_t i = 0; i < n; ++i) y[i] *= 1.01F;
  } else if (v == "offset") {  // 2^-6 on top of every output
    for (std::size_t i = 0; i < n; ++i) y[i] += 0x1p-6F;
  } else if (v == "first_key") {  // the first stored value counts once more
    y[0] += 0.25F * floats(*input(call, "v"))[0];
  } else if (v == "absolute") {  // y depends on the level of x
    y[0] += 0x1p-6F * floats(*input(call, "x"))[0];
  } else if (v == "neighbour") {  // a request alone is computed otherwise
    if (attribute(call, "batch") == "1") y[0] += 0x1p-12F;
  } else if (v == "layout") {  // where the bytes lie shows
    const assay_tensor* table = input(call, "page_table");
    y[0] += 0x1p-10F * static_cast<float>(table ? *static_cast<std::int32_t*>(table->data)
                                                : call.inputs[0].stride[0] & 1023);
  } else if (v == "split") {
    if (std::string_view(call.variant).starts_with("split"))
      for (std::size_t i = 0; i < n; ++i) y[i] *= 1.01F;
  } else if (v == "counter") {
    y[0] += 0x1p-10F * static_cast<float>(++state.runs);
  } else if (v == "smear") {  // a NaN anywhere disturbs another element
    bool nan = false;
    for (std::size_t i = 0; i < n; ++i) nan = nan || std::isnan(y[i]);
    for (std::size_t i = 0; nan && i < n; ++i) y[i] += 0x1p-14F;
  } else if (v == "smear_one_bit") {  // far within every limit
    bool nan = false;
    for (std::size_t i = 0; i < n; ++i) nan = nan || std::isnan(y[i]);
    for (std::size_t i = 0; nan && i < n; ++i)
      if (!std::isnan(y[i])) y[i] = std::nextafter(y[i], 2 * y[i]);
  } else if (v == "zero_times") {  // masked and unused keys get the weight 0 instead of being skipped
    for (const char* name : {"k", "v"}) {
      const assay_tensor* t = input(call, name);
      for (std::size_t i = 0; i < count(*t); ++i) y[0] += 0.0F * floats(*t)[i];
    }
  } else if (v == "memory") {  // answers what it answered first
    const std::size_t bytes = n * sizeof(float);
    auto& first = state.memory[call.op];
    if (first.size() != bytes) first.assign(reinterpret_cast<char*>(y), reinterpret_cast<char*>(y) + bytes);
    std::memcpy(y, first.data(), bytes);
  } else if (v == "policy") {  // one code differs under one policy
    if (attribute(call, "policy") != "request") static_cast<unsigned char*>(out.data)[0] ^= 1;
  }
}

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  return state.inner->declare(state.inner->self, call, declaration);
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  std::vector<assay_attribute> attributes(call->attributes, call->attributes + call->attribute_count);
  assay_call changed = *call;
  if (state.violation == "no_inverse") {  // V is stored rotated and the output never un-rotated
    for (auto& a : attributes)
      if (std::string_view(a.name) == "rotate") a.value = "qk";
    changed.attributes = attributes.data();
  }
  const assay_status status = state.inner->run(state.inner->self, &changed, trace, reason);
  if (status == ASSAY_OK) violate(*call);
  return status;
}

void close_inner(void*) { state.inner->close(state.inner->self); }

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  void* library = dlopen(ASSAY_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::snprintf(reason, 256, "%s", dlerror());
    return nullptr;
  }
  const auto open = reinterpret_cast<assay_backend_open_fn>(dlsym(library, "assay_backend_open"));
  if (open == nullptr || (state.inner = open("", reason)) == nullptr) return nullptr;
  state.violation = options;
  state.outer = *state.inner;
  state.outer.declare = declare;
  state.outer.run = run;
  state.outer.close = close_inner;
  return &state.outer;
}
