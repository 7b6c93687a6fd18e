#include <ggml-cpu.h>

#include <memory>

#include "backends/adapters/ggml/ggml.hpp"
#include "backends/plugin/options.hpp"

namespace assay_ggml {
namespace {

constexpr int kMostThreads = 512;  // GGML_MAX_N_THREADS
// Variant threads3: the fewest whose parts are merged more than once, and that divide few shapes evenly.
constexpr std::string_view kThreeThreads = "threads3";

struct State {
  ggml_backend_dev_t device = nullptr;
  ggml_backend_t backend = nullptr;
  std::string description, variants;
  int threads = 1;
  bool on_cpu = false;
  assay_backend table{};
  ~State() {
    if (backend) ggml_backend_free(backend);
  }
};

struct Options {
  std::string device;
  int threads = 1;
};

Options parse_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const auto end = text.find(',');
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!part.starts_with("threads=")) {
      options.device = part;
      continue;
    }
    options.threads = threads_of_option(part, kMostThreads);
  }
  return options;
}

int threads_of(const Call& call, const State& state) {
  return state.on_cpu && call.variant() == kThreeThreads ? 3 : state.threads;
}

void build(const Call& call, Graph& graph) {
  if (call.op() == "softmax") return build_softmax(call, graph);
  if (call.op() == "layernorm") return build_layernorm(call, graph);
  if (call.op() == "rmsnorm") return build_rmsnorm(call, graph);
  if (call.op() == "matmul") return build_matmul(call, graph);
  if (call.op() == "attention") return build_attention(call, graph);
  throw Unsupported("this adapter has no graph for " + std::string(call.op()));
}

std::string path_of(const Graph& graph, const State& state) {
  return state.on_cpu && !graph.routine.empty() ? graph.routine : graph.name;
}

// What the tables of routines show to be another path is announced as such, and never as the declared one.
void announce(const Graph& graph, const State& state, const Trace& trace) {
  const Entered entered = entered_routines();
  const std::string seen = state.on_cpu && graph.evidence ? graph.evidence(entered) : graph.name;
  const bool open = graph.name.ends_with('*');
  const bool holds =
      open ? seen.starts_with(graph.name.substr(0, graph.name.size() - 1)) : seen == graph.name;
  trace.kernel(holds && state.on_cpu && !graph.routine.empty() ? graph.routine : seen);
  if (!state.on_cpu || !graph.others) return;
  for (const std::string& routine : graph.others(entered))
    if (!routine.empty()) trace.kernel(routine);
}

assay_status declare(void* self, const assay_call* c, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Call call(*c);
    std::string kernel, contract;
    if (is_codec(call)) {
      kernel = codec_kernel(call), contract = codec_contract(call);
    } else {
      Graph graph;
      const State& state = *static_cast<State*>(self);
      graph.threads = threads_of(call, state);
      build(call, graph);
      if (!graph.supported_by(state.device)) throw Unsupported("the device does not support this op");
      kernel = path_of(graph, state), contract = graph.contract;
    }
    return Declared{contract, kernel, "deterministic=yes"};
  });
}

assay_status run(void* self, const assay_call* c, const assay_trace* trace, char* reason) {
  return guarded(reason, [&] {
    const Call call(*c);
    if (is_codec(call)) {
      const std::string kernel = codec_kernel(call);
      run_codec(call);
      trace->kernel(trace->self, kernel.c_str());
      return;
    }
    const State& state = *static_cast<State*>(self);
    Graph graph;
    graph.threads = threads_of(call, state);
    build(call, graph);
    if (state.on_cpu) ggml_backend_cpu_set_n_threads(state.backend, graph.threads);
    forget_routines();
    graph.run(state.backend);
    announce(graph, state, Trace(trace));
  });
}

void close(void* self) { delete static_cast<State*>(self); }

// ggml's log would fill the worker's output; what matters comes back as a status.
void no_log(ggml_log_level, const char*, void*) {}

}  // namespace
}  // namespace assay_ggml

// Options, separated by commas: the name of a device of ggml's registry (none: the first CPU), threads=N (1).
extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  using namespace assay_ggml;
  return opened(reason, [&] {
    ggml_log_set(no_log, nullptr);
    ggml_backend_load_all();
    auto state = std::make_unique<State>();
    std::string names;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i)
      names += std::string(names.empty() ? "" : " ") + ggml_backend_dev_name(ggml_backend_dev_get(i));
    const Options asked = parse_options(options);
    state->threads = asked.threads;
    state->device = !asked.device.empty() ? ggml_backend_dev_by_name(asked.device.c_str())
                                          : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!state->device) refuse_option(asked.device, "threads=N, and a device of ggml's registry: " + names);
    state->backend = ggml_backend_dev_init(state->device, nullptr);
    if (!state->backend)
      throw Failed(std::string("ggml could not start its device ") + ggml_backend_dev_name(state->device));
    state->on_cpu = ggml_backend_dev_type(state->device) == GGML_BACKEND_DEVICE_TYPE_CPU;
    if (state->on_cpu) watch_routines();
    state->description = std::string("ggml ") + ggml_version() + " on " +
                         ggml_backend_dev_description(state->device) + ", " + std::to_string(asked.threads) +
                         (asked.threads == 1 ? " thread" : " threads") + " (devices: " + names + ")";
    state->variants = "quantize:ref quantize:cpu";
    if (state->on_cpu) state->variants += " attention:threads3 matmul:threads3";
    state->table = {ASSAY_BACKEND_VERSION,
                    "ggml",
                    state->description.c_str(),
                    state->variants.c_str(),
                    state.get(),
                    declare,
                    run,
                    close};
    return &state.release()->table;
  });
}
