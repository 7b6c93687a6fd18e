/* The smallest backend: one op, one format, plain C. Copy this file, replace the kernel, add your ops.
 *   y[r,c] = x[r,c] * gamma[c] / sqrt(mean over c of x[r,c]^2 + eps)          x, gamma, y in f32, sums in f32
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assay/assay_backend.h"

static const assay_tensor* tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i) {
    if (strcmp(list[i].name, name) == 0) return &list[i];
  }
  return NULL;
}

static double attribute(const assay_call* call, const char* name) {
  for (int32_t i = 0; i < call->attribute_count; ++i) {
    if (strcmp(call->attributes[i].name, name) == 0) return atof(call->attributes[i].value);
  }
  return 0;
}

/* Can this call be run, and by what arithmetic? The limits that the results are held to follow from
 * `contract`. */
static assay_status declare(void* self, const assay_call* call, assay_declaration* declaration) {
  (void)self;
  memset(declaration, 0, sizeof *declaration);
  const assay_tensor* x = tensor(call->inputs, call->input_count, "x");
  if (strcmp(call->op, "rmsnorm") != 0 || x == NULL || strcmp(x->format, "f32") != 0) {
    snprintf(declaration->reason, sizeof declaration->reason, "only rmsnorm in f32 is here, not %s",
             call->op);
    return ASSAY_UNSUPPORTED;
  }
  strcpy(declaration->contract, "acc=f32"); /* `assay explain rmsnorm` lists the keys and their defaults */
  strcpy(declaration->path, "example_rmsnorm");
  strcpy(declaration->promises, "deterministic=yes nan=propagate");
  return ASSAY_OK;
}

/* The kernel, under the name that `path` declares: a function of its own, so that it can be seen to have run (the witness of
 * the CPU watches the symbols of every plug-in). Rows may have gaps between them: it follows the strides. */
__attribute__((noinline)) static void example_rmsnorm(const assay_tensor* x, const float* gamma,
                                                      const assay_tensor* y, float eps) {
  const int64_t cols = x->shape[1];
  for (int64_t r = 0; r < x->shape[0]; ++r) {
    const float* in = (const float*)((const char*)x->data + r * x->stride[0]);
    float* out = (float*)((char*)y->data + r * y->stride[0]);
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += in[c] * in[c];
    const float factor = 1.0F / sqrtf(sum / (float)cols + eps);
    for (int64_t c = 0; c < cols; ++c) out[c] = in[c] * factor * gamma[c];
  }
}

static assay_status run(void* self, const assay_call* call, const assay_trace* trace, char* reason) {
  assay_declaration declaration;
  if (declare(self, call, &declaration) != ASSAY_OK) {
    memcpy(reason, declaration.reason, sizeof declaration.reason);
    return ASSAY_UNSUPPORTED;
  }
  const assay_tensor* x = tensor(call->inputs, call->input_count, "x");
  const float* gamma = tensor(call->inputs, call->input_count, "gamma")->data;
  const assay_tensor* y = tensor(call->outputs, call->output_count, "y");
  trace->kernel(trace->self, "example_rmsnorm"); /* which path ran, as this plug-in says */
  example_rmsnorm(x, gamma, y, (float)attribute(call, "eps"));
  return ASSAY_OK;
}

static void close_backend(void* self) { (void)self; }

const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "example", "the smallest plug-in: rmsnorm in plain C", "", NULL, declare, run,
      close_backend};
  (void)options;
  (void)reason;
  return &backend;
}
