#include "backends/adapters/onednn/onednn.hpp"

namespace assay_onednn {
namespace {

// y = a b^T. With int8 operands the sum is an exact int32, then one f32 factor per output channel: oneDNN 2
// takes the factors when the primitive is made, and per-token factors not at all.
std::vector<float> output_scales(const assay_tensor* a_scale, const assay_tensor* b_scale, std::int64_t n) {
  std::vector<float> scales(static_cast<std::size_t>(n), 1.0F);
  if (!a_scale->data) return scales;  // declare: any values, the primitive's kind does not depend on them
  const float a = *static_cast<const float*>(a_scale->data);
  const auto* b = static_cast<const float*>(b_scale->data);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = a * (b_scale->shape[0] == 1 ? b[0] : b[i]);
  return scales;
}

}  // namespace

Prepared prepare_matmul(const Call& call, const dnnl::engine& engine) {
  call.only("path", "auto");
  const assay_tensor& a = call.input("a");
  const assay_tensor& b = call.input("b");
  const assay_tensor& y = call.output("y");
  const auto a_desc = row_major(a), b_rows = row_major(b), y_desc = row_major(y);
  const bool int8 = std::string_view(a.format) == "int8";
  const assay_tensor *a_scale = call.find_input("a.scale"), *b_scale = call.find_input("b.scale");
  if ((a_scale != nullptr) != int8 || (b_scale != nullptr) != int8)
    throw Unsupported("scaled formats other than int8: oneDNN 2 has no FP8 or 4-bit types");
  if (int8 && a_scale->shape[0] != 1) throw Unsupported("per-token scales: use a=int8_tensor");
  const auto n = y.shape[1];
  if (int8 && (a_scale->rank != 1 || b_scale->rank != 1)) throw Unsupported("scales of channels");
  if (int8 && b_scale->shape[0] != 1 && b_scale->shape[0] != n)
    throw Unsupported("b's scales: per tensor or per row");

  // Weights are [k, n] to oneDNN: our b [n, k] with its axes exchanged.
  const auto row_stride = b_rows.data.format_desc.blocking.strides[0];
  const dnnl::memory::desc b_desc({b.shape[1], b.shape[0]}, data_type(b), dnnl::memory::dims{1, row_stride});
  dnnl::primitive_attr attributes;
  if (int8) attributes.set_output_scales(1 << 1, output_scales(a_scale, b_scale, n));
  const dnnl::matmul::desc desc(a_desc, b_desc, y_desc);
  const dnnl::matmul::primitive_desc pd(desc, attributes, engine);
  Prepared p;
  p.primitive = dnnl::matmul(pd);
  p.arguments = {{DNNL_ARG_SRC, bind(a_desc, engine, a)},
                 {DNNL_ARG_WEIGHTS, bind(b_desc, engine, b)},
                 {DNNL_ARG_DST, bind(y_desc, engine, y)}};
  p.implementation = pd.impl_info_str();
  if (p.implementation.starts_with("brg")) p.routine = "jit_brgemm_kernel_t*";
  if (p.implementation.starts_with("gemm:jit"))
    p.routine = "jit_*";  // by operands, shape and processor one of many
  // The dot products of bf16 pairs (vdpbf16ps, tdpbf16ps) read subnormal operands as zero and flush subnormal
  // results, whatever the processor's mode (Intel SDM). f32 and f16 operands go through fused multiply-adds,
  // which keep them.
  const bool flushes = std::string_view(a.format) == "bf16";
  p.contract =
      std::string(int8 ? "acc=i32" : "acc=f32") + (flushes ? " ftz=yes" : "") + " out=" + dtype_name(y);
  return p;
}

}  // namespace assay_onednn
