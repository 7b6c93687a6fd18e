// ggml's product of f32 tiles, C += A B, as the prefill of its attention calls it: C begins with zeros.
#include <simd-gemm.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "assay/assay_backend.h"

namespace {

const assay_tensor* tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i) {
    if (std::strcmp(list[i].name, name) == 0) return &list[i];
  }
  return nullptr;
}

/// What is multiplied: f32 as it stands, not what another kernel would first make of it.
bool as_it_stands(const assay_call* call) {
  for (int32_t i = 0; i < call->attribute_count; ++i) {
    const std::string name = call->attributes[i].name, value = call->attributes[i].value;
    if (name == "path" && value != "auto" && value != "f32") return false;
  }
  return true;
}

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  std::memset(declaration, 0, sizeof *declaration);
  const auto* a = tensor(call->inputs, call->input_count, "a");
  const auto* b = tensor(call->inputs, call->input_count, "b");
  const auto* y = tensor(call->outputs, call->output_count, "y");
  const auto f32 = [](const assay_tensor* t) { return t != nullptr && std::strcmp(t->format, "f32") == 0; };
  if (std::strcmp(call->op, "matmul") != 0 || !f32(a) || !f32(b) || !f32(y) || !as_it_stands(call)) {
    std::snprintf(declaration->reason, sizeof declaration->reason, "only matmul in f32 is here");
    return ASSAY_UNSUPPORTED;
  }
  std::strcpy(declaration->contract, "acc=f32");
  std::strcpy(declaration->path, "simd_gemm_of_theirs");
  std::strcpy(declaration->promises, "deterministic=yes");
  return ASSAY_OK;
}

std::vector<float> rows_of(const assay_tensor* t) {
  std::vector<float> out;
  for (int64_t r = 0; r < t->shape[0]; ++r) {
    const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(t->data) + r * t->stride[0]);
    out.insert(out.end(), row, row + t->shape[1]);
  }
  return out;
}

__attribute__((noinline)) void simd_gemm_of_theirs(float* c, const float* a, const float* b, int m, int k,
                                                   int n) {
  simd_gemm(c, a, b, m, k, n);
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char*) {
  const auto* a = tensor(call->inputs, call->input_count, "a");
  const auto* b = tensor(call->inputs, call->input_count, "b");
  const auto* y = tensor(call->outputs, call->output_count, "y");
  const auto left = rows_of(a), right = rows_of(b);
  const auto m = a->shape[0], k = a->shape[1], n = b->shape[0];
  std::vector<float> turned(right.size()), product(static_cast<size_t>(m * n), 0.0F);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < k; ++i) turned[i * n + j] = right[j * k + i];
  }
  trace->kernel(trace->self, "simd_gemm_of_theirs");
  simd_gemm_of_theirs(product.data(), left.data(), turned.data(), static_cast<int>(m), static_cast<int>(k),
                      static_cast<int>(n));
  for (int64_t r = 0; r < m; ++r) {
    std::memcpy(static_cast<char*>(y->data) + r * y->stride[0], &product[r * n], n * sizeof(float));
  }
  return ASSAY_OK;
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char*, char*) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "simd_gemm", "ggml's product of f32 tiles", "", nullptr, declare, run,
      [](void*) {}};
  return &backend;
}
