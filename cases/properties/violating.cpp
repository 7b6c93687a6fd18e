// A plug-in that runs another one and breaks one law behind its back: the planted violations of the property
// tests. Options: the violation. Outputs are f32, but where codes are named.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
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
  std::map<std::string, std::vector<char>>
      memory;       // op -> the first outputs; tensor and page -> its first bytes
  float range = 0;  // absmax that the first request locked
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

bool is(std::string_view violation) { return state.violation == violation; }
bool has(const assay_call& call, std::string_view name, std::string_view value) {
  return attribute(call, name) == value;
}
std::size_t bytes_of(const assay_tensor& t) {
  return static_cast<std::size_t>(t.stride[0]) * static_cast<std::size_t>(t.shape[0]);
}
const assay_tensor& scale_of(const assay_call& call) {  // of what kv_write wrote
  return call.outputs[1];
}

// Codes of a request beyond the range of its scale: an integer that wraps, an overflow that is a NaN in
// e4m3fn.
void overflow_codes(const assay_call& call) {
  const assay_tensor &cache = call.outputs[0], &x = *input(call, "x"), &slots = *input(call, "slots");
  const bool integer = std::string_view(cache.format) == "int8";
  if (call.output_count != 2 || !(integer || std::string_view(cache.format) == "e4m3fn")) return;
  const std::size_t heads = static_cast<std::size_t>(x.shape[1]), d = static_cast<std::size_t>(x.shape[2]);
  const bool one = count(scale_of(call)) == 1;
  for (std::size_t i = 0; i < count(x); ++i) {
    const std::size_t token = i / (heads * d);
    const std::size_t place =
        static_cast<std::size_t>(static_cast<std::int32_t*>(slots.data)[token]) * heads * d + i % (heads * d);
    const double code = floats(x)[i] / floats(scale_of(call))[one ? 0 : i / d % heads];
    auto& stored = static_cast<unsigned char*>(cache.data)[place];
    if (is("wraps") && integer && std::fabs(code) > 128)
      stored = static_cast<unsigned char>(std::lrint(std::fmod(code, 256)));
    if (is("overflow_nan") && !integer && std::fabs(code) > 464) stored = code < 0 ? 0xFF : 0x7F;
  }
}

// A kernel that is given other inputs than the caller's.
struct Deceived {
  explicit Deceived(const assay_call& original)
      : call(original),
        inputs(original.inputs, original.inputs + original.input_count),
        outputs(original.outputs, original.outputs + original.output_count),
        attributes(original.attributes, original.attributes + original.attribute_count) {
    deceive();
    call.inputs = inputs.data(), call.input_count = static_cast<std::int32_t>(inputs.size());
    call.outputs = outputs.data();
    call.attributes = attributes.data();
  }
  Deceived(const Deceived&) = delete;
  Deceived& operator=(const Deceived&) = delete;

  void set(std::string_view name, const char* value) {
    for (auto& a : attributes)
      if (name == a.name) a.value = value;
  }
  // The input in memory of its own.
  assay_tensor* copied(std::string_view name) {
    for (auto& t : inputs)
      if (name == t.name) {
        const auto* from = static_cast<const char*>(t.data);
        auto& own = memory.emplace_back(from, from + bytes_of(t));
        t.data = own.data();
        return &t;
      }
    return nullptr;
  }
  void deceive() {
    if (is("no_inverse")) set("rotate", "qk");  // V is stored rotated and the output never un-rotated
    const std::string_view op = call.op;
    if (op == "kv_write" && (is("sticky_scale") || is("running_max"))) other_range();
    if (op == "attention" && is("stale_page") && input(call, "page_table") != nullptr)
      for (const char* side : {"k", "v"})
        if (assay_tensor* pool = copied(side)) remember(*pool);
    for (const char* scales : {"x.scale", "v.scale"})
      if (assay_tensor* t = is("divides") || is("first_scale") ? copied(scales) : nullptr; t != nullptr)
        for (std::size_t i = 0; i < count(*t) && std::string_view(t->format) == "f32"; ++i)
          floats(*t)[i] = is("divides") ? 1 / floats(*t)[i] : floats(*t)[0];
    // The instance of one pair at one head size is not there: another kernel has to do.
    if (is("dropped") && has(call, "k", "q8_0") && has(call, "v", "f16") && has(call, "d", "128"))
      call.variant = "convert_f16";
  }
  // sticky_scale: whatever the policy, the scale is that of the first request of this process. running_max: a
  // locked range that grows with what is written.
  void other_range() {
    const assay_tensor& x = *input(call, "x");
    assay_tensor* first = copied("first");
    float most = 0;
    const assay_tensor& ranged = first != nullptr ? *first : x;
    for (std::size_t i = 0; i < count(ranged); ++i) most = std::fmax(most, std::fabs(floats(ranged)[i]));
    if (is("running_max")) {
      for (std::size_t i = 0; i < count(x); ++i) most = std::fmax(most, std::fabs(floats(x)[i]));
      if (first != nullptr) floats(*first)[0] = most;
      return;
    }
    if (state.range == 0) state.range = most;
    if (first == nullptr) {
      if (!has(call, "to", "e4m3fn_tok") && !has(call, "to", "int8_tok")) return;
      auto& own = memory.emplace_back(bytes_of(x));
      assay_tensor earlier = x;
      earlier.name = "first", earlier.data = own.data();
      first = &inputs.emplace_back(earlier);
      set("policy", "calibrated"), set("to", has(call, "to", "int8_tok") ? "int8_tensor" : "e4m3fn_tensor");
      outputs[1].data = &one_scale, outputs[1].shape[0] = 1;
    }
    std::memset(first->data, 0, bytes_of(*first));
    for (std::int64_t h = 0; h < first->shape[1]; ++h) floats(*first)[h * first->shape[2]] = state.range;
  }
  // Pages are decoded when they are first seen, and never again.
  static void remember(assay_tensor& pool) {
    const auto pages = static_cast<std::size_t>(pool.shape[0]);
    const std::size_t bytes = static_cast<std::size_t>(pool.stride[0]);
    for (std::size_t p = 1; p < pages; ++p) {
      char* page = static_cast<char*>(pool.data) + p * bytes;
      bool written = false;
      for (std::size_t i = 0; i < bytes; ++i) written = written || page[i] != 0;
      if (!written) continue;
      auto& known = state.memory[std::string(pool.name) + std::to_string(p)];
      if (known.size() != bytes) known.assign(page, page + bytes);
      std::memcpy(page, known.data(), bytes);
    }
  }
  void finish(const assay_call& original) const {  // every token has the scale of all
    if (outputs.size() == 2 && outputs[1].data == &one_scale)
      for (std::size_t t = 0; t < count(scale_of(original)); ++t) floats(scale_of(original))[t] = one_scale;
  }

  assay_call call;
  std::vector<assay_tensor> inputs, outputs;
  std::vector<assay_attribute> attributes;
  std::list<std::vector<char>> memory;
  float one_scale = 0;
};

void violate(const assay_call& call) {
  const std::string& v = state.violation;
  const assay_tensor& out = call.outputs[0];
  // A kernel that writes codes keeps what is said of numbers.
  if (std::string_view(call.op) == "kv_write" && (v == "smear_one_bit" || v == "zero_times")) return;
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
      if (t == nullptr || std::string_view(t->format) != "f32") continue;
      for (std::size_t i = 0; i < count(*t); ++i) y[0] += 0.0F * floats(*t)[i];
    }
  } else if (v == "memory") {  // answers what it answered first
    const std::size_t bytes = n * sizeof(float);
    auto& first = state.memory[call.op];
    if (first.size() != bytes) first.assign(reinterpret_cast<char*>(y), reinterpret_cast<char*>(y) + bytes);
    std::memcpy(y, first.data(), bytes);
  } else if (v == "policy") {  // one code differs under one policy
    if (std::string_view(call.op) == "kv_write" && attribute(call, "policy") != "request")
      static_cast<unsigned char*>(out.data)[0] ^= 1;
  } else if (v == "wraps" || v == "overflow_nan") {
    if (std::string_view(call.op) == "kv_write") overflow_codes(call);
  } else if (v == "norm_nan") {  // a NaN out of nothing, in a batch of more than four rows
    if (std::string_view(call.op) == "layernorm" && call.inputs[0].shape[0] > 4) y[0] = NAN;
  } else if (v == "merges_badly") {  // a second block of 16 keys counts a little more
    if (std::string_view(call.op) == "attention" &&
        std::strtol(std::string(attribute(call, "len")).c_str(), nullptr, 10) > 16)
      for (std::size_t i = 0; i < n; ++i) y[i] *= 1.01F;
  }
}

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  const bool both_ways = is("one_way") || is("two_ways");
  const auto is_built = [&](std::string_view side) {  // a backend of few instances
    for (const char* format : {"f32", "f16", "bf16", "q8_0", "q4_0"})
      if (has(*call, side, format)) return true;
    return false;
  };
  const bool few = both_ways || is("dropped") || is("refuses");
  if ((is("one_way") && has(*call, "k", "f16") && has(*call, "v", "q8_0")) ||
      (few && std::string_view(call->op) == "attention" && !(is_built("k") && is_built("v")))) {
    std::memset(declaration, 0, sizeof *declaration);
    std::snprintf(declaration->reason, sizeof declaration->reason, "no instance of this pair");
    return ASSAY_UNSUPPORTED;
  }
  const assay_status status = state.inner->declare(state.inner->self, call, declaration);
  if (both_ways && status == ASSAY_OK) {
    const std::size_t used = std::strlen(declaration->promises);
    std::snprintf(declaration->promises + used, sizeof declaration->promises - used, " pairs=symmetric");
  }
  return status;
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  if (is("refuses") && has(*call, "k", "q8_0") && has(*call, "v", "f16") && has(*call, "d", "128")) {
    std::snprintf(reason, 256, "no instance of this pair");
    return ASSAY_UNSUPPORTED;
  }
  Deceived deceived(*call);
  const assay_status status = state.inner->run(state.inner->self, &deceived.call, trace, reason);
  deceived.finish(*call);
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
