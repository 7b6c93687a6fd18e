// softmax, layer normalisation and RMS normalisation: f32 only in ggml.
#include <cmath>

#include "backends/adapters/ggml/ggml.hpp"

namespace assay_ggml {

void build_softmax(const Call& call, Graph& graph) {
  call.only("dtype", "f32");
  call.only("mask", "none");
  if (call.real("softcap") != 0) throw Unsupported("no soft cap in ggml_soft_max_ext");
  const assay_tensor& x = call.input("x");
  const assay_tensor* sinks = call.find_input("sinks");
  if (sinks) throw Unsupported("ggml's sinks are per head of a batched softmax, not per row");
  ggml_tensor* node = ggml_soft_max_ext(graph.context(), graph.input(x), nullptr,
                                        static_cast<float>(1.0 / call.real("temperature")), 0.0F);
  graph.name = "soft_max";
  graph.routine = library_symbol("ggml_compute_forward_soft_max");
  // A scale of 1/temperature is one more rounding of each logit; ggml_vec_soft_max_f32 sums in double
  // (ggml_float) and its own vector exp is accurate to 1.45 ulp (ggml/src/ggml-cpu/vec.h: "maximum error
  // is 1.45358 plus 0.5 ulps"). In front of the doubles stand at most 4 levels of pairs, of a vector of 16
  // f32; behind them one rounding; n of theirs are less than one more for every n below 2^29.
  graph.contract = "acc=f32 order=depth:6 exp_ulp=2 out=f32 ftz=yes";
  graph.finish(node, call.output("y"));
}

void build_layernorm(const Call& call, Graph& graph) {
  call.only("dtype", "f32");
  ggml_context* c = graph.context();
  ggml_tensor* node = ggml_norm(c, graph.input(call.input("x")), static_cast<float>(call.real("eps")));
  node = ggml_add(c, ggml_mul(c, node, graph.input(call.input("gamma"))), graph.input(call.input("beta")));
  graph.name = "norm";
  graph.routine = library_symbol("ggml_compute_forward_norm");
  graph.contract = "acc=f32 variance=two_pass product=x_inv_gamma out=f32";
  graph.finish(node, call.output("y"));
}

void build_rmsnorm(const Call& call, Graph& graph) {
  call.only("dtype", "f32");
  ggml_context* c = graph.context();
  ggml_tensor* node = ggml_rms_norm(c, graph.input(call.input("x")), static_cast<float>(call.real("eps")));
  node = ggml_mul(c, node, graph.input(call.input("gamma")));
  graph.name = "rms_norm";
  // Newer versions have one for the product too: the path leaves the end of the name open.
  graph.routine = library_symbol("ggml_compute_forward_rms_norm");
  if (!graph.routine.empty()) graph.routine += '*';
  graph.contract = "acc=f32 product=x_inv_gamma out=f32";
  graph.finish(node, call.output("y"));
}

}  // namespace assay_ggml
