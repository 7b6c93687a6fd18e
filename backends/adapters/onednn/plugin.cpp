#include <array>
#include <memory>
#include <vector>

#include "backends/adapters/onednn/onednn.hpp"
#include "backends/plugin/options.hpp"

// Of libgomp, which Debian's oneDNN runs on whatever compiler this is built with; a compiler's own omp.h may
// be another's.
extern "C" void omp_set_num_threads(int threads);

namespace assay_onednn {
namespace {

constexpr int kMostThreads = 512;

struct State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::string description;
  assay_backend backend{};
};

Prepared prepare(const Call& call, const dnnl::engine& engine) {
  if (call.op() == "softmax") return prepare_softmax(call, engine);
  if (call.op() == "layernorm") return prepare_layernorm(call, engine);
  if (call.op() == "matmul") return prepare_matmul(call, engine);
  throw Unsupported("oneDNN 2 has no primitive for " + std::string(call.op()));
}

// A primitive that oneDNN cannot make is a gap of the library, not a failure of the run.
Prepared prepare_or_refuse(const Call& call, const dnnl::engine& engine) {
  try {
    return prepare(call, engine);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments)
      throw Unsupported(std::string("oneDNN: ") + e.what());
    throw;
  }
}

std::string path_of(const Prepared& p) { return p.routine.empty() ? p.implementation : p.routine; }

// oneDNN names the routines that it generates where a witness finds them, in the map of perf. Those of its
// products it generates when a call first takes their way, of which small and narrow products have one of
// their own on AVX2: here, and not in the middle of a case.
void name_what_is_generated() {
  if (dnnl_set_jit_profiling_flags(DNNL_JIT_PROFILE_LINUX_PERFMAP) != dnnl_success) return;
  constexpr std::array<std::array<dnnl_dim_t, 3>, 3> kShapes = {{{1, 1, 1}, {3, 20, 512}, {64, 64, 64}}};
  for (const auto& [m, n, k] : kShapes)
    for (const char a : {'N', 'T'})
      for (const char b : {'N', 'T'}) {
        const std::vector<float> left(static_cast<std::size_t>(m * k), 1),
            right(static_cast<std::size_t>(k * n), 1);
        std::vector<float> product(static_cast<std::size_t>(m * n));
        dnnl_sgemm(a, b, m, n, k, 1, left.data(), a == 'N' ? k : m, right.data(), b == 'N' ? n : k, 0,
                   product.data(), n);
      }
  const std::int8_t code = 1, none = 0;
  std::int32_t sum = 0;
  dnnl_gemm_s8s8s32('N', 'N', 'F', 1, 1, 1, 1, &code, 1, none, &code, 1, none, 0, &sum, 1, &sum);
}

assay_status declare(void* self, const assay_call* c, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Prepared p = prepare_or_refuse(Call(*c), static_cast<State*>(self)->engine);
    return Declared{p.contract, path_of(p), "deterministic=yes"};
  });
}

assay_status run(void* self, const assay_call* c, const assay_trace* trace, char* reason) {
  return guarded(reason, [&] {
    State& state = *static_cast<State*>(self);
    const Prepared p = prepare_or_refuse(Call(*c), state.engine);
    p.primitive.execute(state.stream, p.arguments);
    state.stream.wait();
    const Trace told(trace);
    told.kernel(path_of(p));
    told.note("implementation", p.implementation);
  });
}

void close(void* self) { delete static_cast<State*>(self); }

}  // namespace

dnnl::memory::data_type data_type(const assay_tensor& t) {
  const std::string_view format = t.format;
  if (format == "f32") return dnnl::memory::data_type::f32;
  if (format == "bf16") return dnnl::memory::data_type::bf16;
  if (format == "f16") return dnnl::memory::data_type::f16;
  if (format == "int8") return dnnl::memory::data_type::s8;
  throw Unsupported(std::string(t.name) + " in " + t.format + ": oneDNN 2 on a CPU has f32, bf16 and int8");
}

dnnl::memory::desc row_major(const assay_tensor& t) {
  const auto type = data_type(t);
  const auto size = static_cast<std::int64_t>(dnnl::memory::data_type_size(type));
  dnnl::memory::dims dims(t.shape, t.shape + t.rank), strides(static_cast<std::size_t>(t.rank), 1);
  for (std::size_t a = 0; a + 1 < strides.size(); ++a) {
    if (t.stride[a] % size != 0) throw Unsupported(std::string(t.name) + ": a stride of part of an element");
    strides[a] = t.stride[a] / size;
  }
  return {dims, type, strides};
}

dnnl::memory bind(const dnnl::memory::desc& desc, const dnnl::engine& engine, const assay_tensor& t) {
  // Without data (declare) oneDNN must not allocate: DNNL_MEMORY_NONE.
  return {desc, engine, t.data ? t.data : DNNL_MEMORY_NONE};
}

std::string dtype_name(const assay_tensor& t) { return t.format; }

}  // namespace assay_onednn

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  using namespace assay_onednn;
  return opened(reason, [&] {
    // By default one: the harness runs several workers side by side.
    const int threads = *options == '\0' ? 1 : threads_of_option(options, kMostThreads);
    omp_set_num_threads(threads);
    name_what_is_generated();
    auto state = std::make_unique<State>();
    const dnnl_version_t* v = dnnl_version();
    state->description = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
                         std::to_string(v->patch) + ", CPU, " + std::to_string(threads) + " thread";
    state->backend = {
        ASSAY_BACKEND_VERSION, "onednn", state->description.c_str(), "", state.get(), declare, run, close};
    return &state.release()->backend;
  });
}
