#include <ggml-cpu.h>

#include "backends/adapters/ggml/ggml.hpp"

namespace assay_ggml {

// ggml_mul_mat(weights, activations): activations and result in f32. A CPU multiplies quantised weights with
// activations that it has first quantised to the type's partner (q8_0, q8_1 for blocks of 32 with a minimum,
// q8_K for blocks of 256), f16 and bf16 weights with activations rounded to their type.
void build_matmul(const Call& call, Graph& graph) {
  const assay_tensor &a = call.input("a"), &b = call.input("b");
  if (std::string_view(a.format) != "f32") throw Unsupported("activations are f32 in ggml_mul_mat");
  call.only("dtype", "f32");
  const std::string_view weights = b.format, path = call.text("path");
  const ggml_type type = type_of(b);
  const bool blocks = ggml_is_quantized(type);
  if (!ggml_get_type_traits_cpu(type)->vec_dot)
    throw Unsupported(std::string(ggml_type_name(type)) + " holds activations only");
  const ggml_type partner = ggml_get_type_traits_cpu(type)->vec_dot_type;
  const std::string wanted = !blocks                     ? std::string(weights)
                             : partner == GGML_TYPE_Q8_0 ? "q8"
                                                         : ggml_type_name(partner);
  if (blocks && partner != GGML_TYPE_Q8_0 && partner != GGML_TYPE_Q8_1 && partner != GGML_TYPE_Q8_K)
    throw Unsupported("activations go through " + wanted + ", which no path of this op describes");
  if (blocks ? path != wanted : path != "auto" && path != wanted)
    throw Unsupported("ggml multiplies " + std::string(weights) + " weights by path " + wanted);
  // Some shapes go to blocked products (llamafile's) that no table names: the path leaves those open, and
  // nothing else.
  const std::string name = ggml_type_name(type);
  graph.name = "mul_mat_" + name + "*";
  if (library_symbol("llamafile_sgemm").empty()) {
    graph.routine = product_name(type);
    graph.others = [partner](const Entered&) {
      return std::vector{partner == GGML_TYPE_F32 ? std::string() : encoder_name(partner)};
    };
  }
  graph.evidence = [name](const Entered& seen) {
    if (!seen.decoders.empty()) return "mul_mat_decoded_from_" + names_of(seen.decoders);
    return "mul_mat_" + (seen.products.empty() ? name + "_blocked" : names_of(seen.products));
  };
  // Vector code rounds halves of activations to even, plain code away from zero.
  graph.contract = std::string("acc=f32 out=f32") + (path == "q8" || path == "q8_1" ? " ties=any" : "");
  graph.finish(ggml_mul_mat(graph.context(), graph.input(b), graph.input(a)), call.output("y"));
}

}  // namespace assay_ggml
