/* ggml's own quantize_row_*_ref and dequantize_row_* as a plug-in, out of two of its files: what build_codecs makes in seconds
 * at any commit, for searches of the whole history. */
#include <ggml.h>
#include <stdio.h>
#include <string.h>

#include "backends/assay_backend.h"

void ggml_abort(const char* file, int line, const char* format, ...); /* its own */

static const struct {
  const char* format;
  enum ggml_type type;
} kTypes[] = {{"q8_0", GGML_TYPE_Q8_0}, {"q4_0", GGML_TYPE_Q4_0}, {"q4_1", GGML_TYPE_Q4_1},
              {"q5_0", GGML_TYPE_Q5_0}, {"q5_1", GGML_TYPE_Q5_1}, {"iq4_nl", GGML_TYPE_IQ4_NL}};

static const struct ggml_type_traits* traits_of(const char* format) {
  for (size_t i = 0; i < sizeof kTypes / sizeof kTypes[0]; ++i)
    if (strcmp(format, kTypes[i].format) == 0) return ggml_get_type_traits(kTypes[i].type);
  return NULL;
}

static assay_status declare(void* self, const assay_call* call, assay_declaration* declaration) {
  (void)self;
  memset(declaration, 0, sizeof *declaration);
  const int quantize = strcmp(call->op, "quantize") == 0;
  const assay_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const assay_tensor *packed = quantize ? y : x, *plain = quantize ? x : y;
  const struct ggml_type_traits* traits = traits_of(packed->format);
  if ((!quantize && strcmp(call->op, "dequantize") != 0) || traits == NULL || call->input_count != 1 ||
      strcmp(plain->format, "f32") != 0 || packed->shape[1] % traits->blck_size != 0) {
    snprintf(declaration->reason, sizeof declaration->reason, "only blocks of ggml to and from f32");
    return ASSAY_UNSUPPORTED;
  }
  if (!quantize) strcpy(declaration->contract, "mid=f32 roundings=1");
  snprintf(declaration->path, sizeof declaration->path, "%s_%s", quantize ? "from_float_ref" : "to_float",
           packed->format);
  strcpy(declaration->promises, "deterministic=yes");
  return ASSAY_OK;
}

static assay_status run(void* self, const assay_call* call, const assay_trace* trace, char* reason) {
  assay_declaration declaration;
  if (declare(self, call, &declaration) != ASSAY_OK) {
    memcpy(reason, declaration.reason, sizeof declaration.reason);
    return ASSAY_UNSUPPORTED;
  }
  const int quantize = strcmp(call->op, "quantize") == 0;
  const assay_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const struct ggml_type_traits* traits = traits_of((quantize ? y : x)->format);
  trace->kernel(trace->self, declaration.path);
  for (int64_t r = 0; r < x->shape[0]; ++r) {
    const char* from = (const char*)x->data + r * x->stride[0];
    char* to = (char*)y->data + r * y->stride[0];
    if (quantize)
      traits->from_float_ref((const float*)from, to, x->shape[1]);
    else
      traits->to_float(from, (float*)to, x->shape[1]);
  }
  return ASSAY_OK;
}

static void close_backend(void* self) { (void)self; }

const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const assay_backend backend = {ASSAY_BACKEND_VERSION,
                                        "ggml_codecs",
                                        "ggml's codecs, as its type traits name them",
                                        "",
                                        NULL,
                                        declare,
                                        run,
                                        close_backend};
  (void)options;
  (void)reason;
  ggml_quantize_init(GGML_TYPE_IQ4_NL);
  return &backend;
}
