#include "backends/adapters/onednn/onednn.hpp"

namespace assay_onednn {

Prepared prepare_layernorm(const Call& call, const dnnl::engine& engine) {
  const assay_tensor& x = call.input("x");
  const assay_tensor& y = call.output("y");
  const assay_tensor& gamma = call.input("gamma");
  const assay_tensor& beta = call.input("beta");
  const auto x_desc = row_major(x), y_desc = row_major(y);
  if (x_desc != y_desc) throw Unsupported("x and y must have the same strides");
  const dnnl::layer_normalization_forward::desc desc(
      dnnl::prop_kind::forward_inference, x_desc, static_cast<float>(call.real("eps")),
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift);
  const dnnl::layer_normalization_forward::primitive_desc pd(desc, engine);
  Prepared p;
  p.primitive = dnnl::layer_normalization_forward(pd);
  p.arguments = {{DNNL_ARG_SRC, bind(x_desc, engine, x)},
                 {DNNL_ARG_DST, bind(y_desc, engine, y)},
                 {DNNL_ARG_SCALE, bind(row_major(gamma), engine, gamma)},
                 {DNNL_ARG_SHIFT, bind(row_major(beta), engine, beta)}};
  p.implementation = pd.impl_info_str();
  if (p.implementation.starts_with("simple_layer_normalization"))
    p.routine = "lnorm_utils::jit_stat_and_data_kernel_t*";
  p.contract = "acc=f32 variance=two_pass out=" + dtype_name(y);
  return p;
}

}  // namespace assay_onednn
