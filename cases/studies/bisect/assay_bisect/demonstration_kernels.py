"""The sources of the demonstration repository at one commit: rmsnorm behind backends/assay_backend.h, in
plain C."""
from dataclasses import dataclass, field

PLANTS = ("numbers", "law", "speed", "path", "kernel", "flaky")


@dataclass
class State:
    """What tells one commit from another."""
    edits: dict = field(default_factory=lambda: {"sum.c": 0, "row.c": 0, "dispatch.c": 0, "plugin.c": 0,
                                                 "notes.md": 0})
    unroll: int = 4
    broken: bool = False
    plant: str = ""
    rate: int = 10  # flaky: one process in so many

    def copy(self):
        return State(dict(self.edits), self.unroll, self.broken, self.plant, self.rate)


def sources(state, header):
    """{path: text}."""
    edit = state.edits
    last = "n - (n % 4 == 1)" if state.plant == "numbers" else "n"
    backwards = "row % 2 == 1" if state.plant == "law" else "0"
    again = "64" if state.plant == "speed" else "1"
    spoil = "unlucky()" if state.plant == "flaky" else "0"
    seen = {"path": '"rmsnorm_generic"', "kernel": '"rmsnorm_generic"'}.get(state.plant, '"rmsnorm_unrolled"')
    declared = '"rmsnorm_generic"' if state.plant == "kernel" else '"rmsnorm_unrolled"'
    error = "#error \"half of a change\"\n" if state.broken else ""
    return {
        "assay_backend.h": header,
        "kernels.h": f"""#include <stdint.h>
#define UNROLL {state.unroll}
float sum_of_squares(const float* x, int64_t n, int64_t row);
void scaled_row(const float* x, const float* gamma, float factor, float* y, int64_t n);
const char* declared_kernel(void);
const char* kernel_that_runs(void);
""",
        "sum.c": f"""/* Revision {edit['sum.c']}. */
#include <stdio.h>
#include "kernels.h"
{error}
/* One process in {state.rate}. */
static int unlucky(void) {{
  static int known = -1;
  if (known < 0) {{
    FILE* f = fopen("/dev/urandom", "rb");
    unsigned short drawn = 0;
    known = f != NULL && fread(&drawn, sizeof drawn, 1, f) == 1 && drawn % {state.rate} == 0;
    if (f != NULL) fclose(f);
  }}
  return known;
}}

static float once(const float* x, int64_t n, int64_t row) {{
  float part[UNROLL] = {{0}}, sum = 0;
  const int64_t end = {last};
  for (int64_t i = 0; i < end; ++i) {{
    const int64_t at = {backwards} ? end - 1 - i : i;
    part[i % UNROLL] += x[at] * x[at];
  }}
  for (int i = 0; i < UNROLL; ++i) sum += part[i];
  return {spoil} ? 1.01F * sum : sum;
}}

float sum_of_squares(const float* x, int64_t n, int64_t row) {{
  volatile float sum = 0;
  for (int i = 0; i < {again}; ++i) sum = once(x, n, row);
  return sum;
}}
int unlucky_is_used(void) {{ return unlucky(); }}
""",
        "row.c": f"""/* Revision {edit['row.c']}. */
#include "kernels.h"
void scaled_row(const float* x, const float* gamma, float factor, float* y, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor * gamma[i];
}}
""",
        "dispatch.c": f"""/* Revision {edit['dispatch.c']}. */
#include "kernels.h"
const char* declared_kernel(void) {{ return {declared}; }}
const char* kernel_that_runs(void) {{ return {seen}; }}
""",
        "plugin.c": PLUGIN.replace("REVISION", str(edit["plugin.c"])),
        "notes.md": f"Notes, {edit['notes.md']}\n",
        "build.sh": "exec cc -O1 -shared -fPIC -o kernels.so sum.c row.c dispatch.c plugin.c -I. -lm\n",
    }


PLUGIN = """/* Revision REVISION. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "assay_backend.h"
#include "kernels.h"

static const assay_tensor* tensor(const assay_tensor* list, int32_t count, const char* name) {
  for (int32_t i = 0; i < count; ++i)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  return NULL;
}

static assay_status declare(void* self, const assay_call* call, assay_declaration* declaration) {
  (void)self;
  memset(declaration, 0, sizeof *declaration);
  const assay_tensor* x = tensor(call->inputs, call->input_count, "x");
  if (strcmp(call->op, "rmsnorm") != 0 || x == NULL || strcmp(x->format, "f32") != 0) {
    strcpy(declaration->reason, "only rmsnorm in f32");
    return ASSAY_UNSUPPORTED;
  }
  strcpy(declaration->contract, "acc=f32");
  strcpy(declaration->path, declared_kernel());
  strcpy(declaration->promises, "deterministic=yes order=bitwise");
  return ASSAY_OK;
}

static assay_status run(void* self, const assay_call* call, const assay_trace* trace, char* reason) {
  (void)self, (void)reason;
  const assay_tensor* x = tensor(call->inputs, call->input_count, "x");
  const float* gamma = tensor(call->inputs, call->input_count, "gamma")->data;
  const assay_tensor* y = tensor(call->outputs, call->output_count, "y");
  float eps = 0;
  for (int32_t i = 0; i < call->attribute_count; ++i)
    if (strcmp(call->attributes[i].name, "eps") == 0) eps = (float)atof(call->attributes[i].value);
  trace->kernel(trace->self, kernel_that_runs());
  for (int64_t r = 0; r < x->shape[0]; ++r) {
    const float* in = (const float*)((const char*)x->data + r * x->stride[0]);
    const float sum = sum_of_squares(in, x->shape[1], r);
    scaled_row(in, gamma, 1.0F / sqrtf(sum / (float)x->shape[1] + eps), (float*)((char*)y->data + r * y->stride[0]),
               x->shape[1]);
  }
  return ASSAY_OK;
}

static void close_backend(void* self) { (void)self; }

const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION, "demonstration", "rmsnorm with a history", "", NULL, declare, run, close_backend};
  (void)options, (void)reason;
  return &backend;
}
"""
