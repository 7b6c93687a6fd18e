// A plug-in for the tests of attribution: a mixture of experts, argmax and rmsnorm in plain f32, and a
// variant for each stage to be wrong in.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "backends/assay_backend.h"

namespace {

const char* attribute(const assay_call* call, std::string_view name) {
  for (std::int32_t i = 0; i < call->attribute_count; ++i)
    if (name == call->attributes[i].name) return call->attributes[i].value;
  return "";
}

template <class T>
const T* row(const assay_tensor& t, std::int64_t r) {
  return reinterpret_cast<const T*>(static_cast<const char*>(t.data) +
                                    r * t.stride[t.rank == 1 ? 0 : t.rank - 2]);
}

float dot(const float* a, const float* b, std::int64_t n, bool faulty) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return faulty ? 1.001F * sum : sum;
}

void moe(const assay_call* call, std::string_view wrong) {
  const assay_tensor &x = call->inputs[0], &w13 = call->inputs[1], &w2 = call->inputs[2];
  const assay_tensor &ids = call->inputs[3], &weights = call->inputs[4], &y = call->outputs[0];
  const std::int64_t hidden = x.shape[1], inter = w2.shape[2], experts = w2.shape[0], topk = ids.shape[1];
  std::vector<float> h(static_cast<std::size_t>(inter));
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    float* out = const_cast<float*>(row<float>(y, t));
    for (std::int64_t c = 0; c < hidden; ++c) out[c] = 0;
    for (std::int64_t s = 0; s < topk; ++s) {
      std::int64_t e = row<std::int32_t>(ids, t)[s];
      if (wrong == "other_expert") e = (e + 1) % experts;
      const float weight = wrong == "weights_left_out" ? 1 : row<float>(weights, t)[s];
      for (std::int64_t i = 0; i < inter; ++i) {
        const float g =
            dot(row<float>(w13, e * 2 * inter + i), row<float>(x, t), hidden, wrong == "products");
        const float u =
            dot(row<float>(w13, (e * 2 + 1) * inter + i), row<float>(x, t), hidden, wrong == "products");
        h[static_cast<std::size_t>(i)] =
            (wrong == "gate_is_relu" ? std::fmax(g, 0.0F) : g / (1 + std::exp(-g))) * u;
      }
      for (std::int64_t c = 0; c < hidden; ++c)
        out[c] += weight * dot(row<float>(w2, e * hidden + c), h.data(), inter, false);
    }
  }
}

void argmax(const assay_call* call, std::string_view wrong) {
  const assay_tensor &x = call->inputs[0], &y = call->outputs[0];
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row<float>(x, r);
    std::int32_t best = 0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i)
      if (in[i] > in[best] || (wrong == "last_of_equals" && in[i] == in[best]))
        best = static_cast<std::int32_t>(i);
    if (wrong == "index_off") best = best == 0 ? 0 : best - 1;
    reinterpret_cast<std::int32_t*>(y.data)[r] = best;
  }
}

// `row_7_columns_3_5`: the numbers of these columns of that row are wrong.
void rmsnorm(const assay_call* call, const char* wrong) {
  const assay_tensor &x = call->inputs[0], &gamma = call->inputs[1], &y = call->outputs[0];
  int bad_row = -1, first = 0, last = -1;
  std::sscanf(wrong, "row_%d_columns_%d_%d", &bad_row, &first, &last);
  const double eps = std::atof(attribute(call, "eps"));
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const float* in = row<float>(x, r);
    double squares = 0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) squares += static_cast<double>(in[i]) * in[i];
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.shape[1]) + eps);
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      const double value = in[i] * factor * row<float>(gamma, 0)[i];
      const_cast<float*>(row<float>(y, r))[i] =
          static_cast<float>(r == bad_row && i >= first && i <= last ? 1.5 * value : value);
    }
  }
}

assay_status declare(void*, const assay_call* call, assay_declaration* d) {
  const std::string_view op = call->op;
  const bool plain = op == "rmsnorm"  ? call->inputs[0].format == std::string_view("f32")
                     : op == "argmax" ? attribute(call, "checked") == std::string_view("no") &&
                                            call->inputs[0].format == std::string_view("f32")
                                      : op == "moe" && call->inputs[0].format == std::string_view("f32") &&
                                            call->inputs[1].format == std::string_view("f32") &&
                                            call->outputs[0].format == std::string_view("f32");
  if (!plain) {
    std::snprintf(d->reason, sizeof d->reason, "only moe and argmax of f32");
    return ASSAY_UNSUPPORTED;
  }
  if (op == "rmsnorm") std::snprintf(d->contract, sizeof d->contract, "acc=f32");
  if (op == "moe")
    std::snprintf(d->contract, sizeof d->contract, "acc=f32 gate_up=f32 silu_ulp=2 expert_out=f32");
  std::snprintf(d->path, sizeof d->path, "%s", call->op);
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char*) {
  trace->kernel(trace->self, call->op);
  const std::string_view op = call->op;
  if (op == "moe") moe(call, call->variant);
  if (op == "argmax") argmax(call, call->variant);
  if (op == "rmsnorm") rmsnorm(call, call->variant);
  return ASSAY_OK;
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char*, char*) {
  static const assay_backend backend{
      ASSAY_BACKEND_VERSION,
      "faulty_stages",
      "a mixture of experts and argmax, many ways of going wrong",
      "correct other_expert weights_left_out gate_is_relu products last_of_equals index_off "
      "row_0_columns_0_0 "
      "row_7_columns_3_5 row_4_columns_0_31 row_2_columns_30_32 row_8_columns_17_17 row_5_columns_0_32",
      nullptr,
      declare,
      run,
      [](void*) {}};
  return &backend;
}
