/* A KV cache in int8: a scale for each token, or one of an earlier request for the whole cache. With STALE the scale that
 * the first request made is never made anew. */
#include <assay/assay_backend.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const assay_tensor* tensor(const assay_tensor* list, int32_t count, const char* name) {
  int32_t i;
  for (i = 0; i < count; ++i)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  return NULL;
}
static const char* attribute(const assay_call* call, const char* name) {
  int32_t i;
  for (i = 0; i < call->attribute_count; ++i)
    if (strcmp(call->attributes[i].name, name) == 0) return call->attributes[i].value;
  return "";
}

static assay_status declare(void* self, const assay_call* call, assay_declaration* d) {
  const char *to = attribute(call, "to"), *policy = attribute(call, "policy");
  (void)self;
  if (strcmp(call->op, "kv_write") != 0 || strcmp(attribute(call, "dtype"), "f32") != 0 ||
      !((strcmp(to, "int8_tok") == 0 && strcmp(policy, "token") == 0) ||
        (strcmp(to, "int8_tensor") == 0 &&
         (strcmp(policy, "locked") == 0 || strcmp(policy, "calibrated") == 0)))) {
    snprintf(d->reason, sizeof d->reason, "only kv_write of f32 to int8_tok or int8_tensor");
    return ASSAY_UNSUPPORTED;
  }
  snprintf(d->contract, sizeof d->contract, "scale=divide code=divide int_range=symmetric");
  snprintf(d->path, sizeof d->path, "my_write");
  return ASSAY_OK;
}

static float scale_of(const float* x, int64_t n, float divisor) {
  float most = 0;
  int64_t i;
  for (i = 0; i < n; ++i) most = fmaxf(most, fabsf(x[i]));
  return most > 0 ? most / divisor : 1;
}

__attribute__((noinline)) static void my_write(const assay_call* call) {
  const assay_tensor* x = tensor(call->inputs, call->input_count, "x");
  const assay_tensor* first = tensor(call->inputs, call->input_count, "first");
  const int32_t* slots = tensor(call->inputs, call->input_count, "slots")->data;
  signed char* cache = tensor(call->outputs, call->output_count, "cache")->data;
  float* scales = tensor(call->outputs, call->output_count, "cache.scale")->data;
  const int64_t tokens = x->shape[0], row = x->shape[1] * x->shape[2];
  const int locked = strcmp(attribute(call, "policy"), "locked") == 0;
  const float divisor = locked ? strtof(attribute(call, "constant"), NULL) : 127;
#ifdef STALE
  static float kept = 0;
#endif
  int64_t t, i;
  for (t = 0; t < tokens; ++t) {
    const float* in = (const float*)x->data + t * row;
    float scale = first != NULL ? scale_of(first->data, tokens * row, divisor) : scale_of(in, row, divisor);
#ifdef STALE
    if (kept == 0) kept = scale;
    scale = kept;
#endif
    scales[first != NULL ? 0 : slots[t]] = scale;
    for (i = 0; i < row; ++i) {
      const float code = rintf(in[i] / scale);
      cache[slots[t] * row + i] = (signed char)fmaxf(-127, fminf(127, code));
    }
  }
}

static assay_status run(void* self, const assay_call* call, const assay_trace* trace, char* reason) {
  (void)self, (void)reason;
  trace->kernel(trace->self, "my_write");
  my_write(call);
  return ASSAY_OK;
}

static void close_backend(void* self) { (void)self; }

const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "my_cache", "a KV cache in int8", "", NULL, declare, run, close_backend};
  (void)options, (void)reason;
  return &backend;
}
