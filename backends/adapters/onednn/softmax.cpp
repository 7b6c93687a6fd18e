#include "backends/adapters/onednn/onednn.hpp"

namespace assay_onednn {

Prepared prepare_softmax(const Call& call, const dnnl::engine& engine) {
  call.only("mask", "none");
  call.only("sinks", "no");
  if (call.real("softcap") != 0) throw Unsupported("no soft cap");
  if (call.real("temperature") != 1) throw Unsupported("no temperature");
  const assay_tensor& x = call.input("x");
  const assay_tensor& y = call.output("y");
  const auto x_desc = row_major(x), y_desc = row_major(y);
  if (x_desc != y_desc) throw Unsupported("x and y must have the same strides");
  const dnnl::softmax_forward::desc desc(dnnl::prop_kind::forward_inference, x_desc, 1);
  const dnnl::softmax_forward::primitive_desc pd(desc, engine);
  Prepared p;
  p.primitive = dnnl::softmax_forward(pd);
  p.arguments = {{DNNL_ARG_SRC, bind(x_desc, engine, x)}, {DNNL_ARG_DST, bind(y_desc, engine, y)}};
  p.implementation = pd.impl_info_str();
  if (p.implementation.starts_with("jit:")) p.routine = "jit_softmax_t*";
  // oneDNN accumulates in f32. Its generated exp is a degree-5 polynomial after range reduction by ln 2 in
  // two parts; no accuracy is documented, so 4 ulp is our reading, which the runs confirm or refute. What
  // underflows in exp becomes zero. With a bf16 destination the weights are parked in it between the two
  // passes.
  const bool narrow = std::string_view(y.format) != "f32";
  p.contract =
      "acc=f32 exp_ulp=4 ftz=yes" + (narrow ? " weights=" + dtype_name(y) : "") + " out=" + dtype_name(y);
  return p;
}

}  // namespace assay_onednn
