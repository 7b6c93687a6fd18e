/* A plug-in built against the installed header alone. */
#include <assay/assay_backend.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static assay_status declare(void* self, const assay_call* call, assay_declaration* d) {
  (void)self;
  if (strcmp(call->op, "softmax") != 0 || strcmp(call->inputs[0].format, "f32") != 0) {
    snprintf(d->reason, sizeof d->reason, "only softmax in f32");
    return ASSAY_UNSUPPORTED;
  }
  snprintf(d->contract, sizeof d->contract, "acc=f32 exp_ulp=1 out=f32");
  snprintf(d->path, sizeof d->path, "my_softmax");
  return ASSAY_OK;
}

static assay_status run(void* self, const assay_call* call, const assay_trace* trace, char* reason) {
  (void)self, (void)reason;
  const assay_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (int64_t r = 0; r < x->shape[0]; ++r) {
    const float* in = (const float*)((const char*)x->data + r * x->stride[0]);
    float* out = (float*)((char*)y->data + r * y->stride[0]);
    float largest = in[0], sum = 0;
    for (int64_t i = 1; i < x->shape[1]; ++i) largest = fmaxf(largest, in[i]);
    for (int64_t i = 0; i < x->shape[1]; ++i) sum += out[i] = expf(in[i] - largest);
    for (int64_t i = 0; i < x->shape[1]; ++i) out[i] /= sum;
  }
  trace->kernel(trace->self, "my_softmax");
  return ASSAY_OK;
}

static void finish(void* self) { (void)self; }

static const assay_backend backend = {
    ASSAY_BACKEND_VERSION, "mine", "the consumer's softmax", "", 0, declare, run, finish};

const assay_backend* assay_backend_open(const char* options, char* reason) {
  (void)options, (void)reason;
  return &backend;
}
