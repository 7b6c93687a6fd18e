/* What a backend is. A shared library that exports assay_backend_open(); it is loaded in a worker process, never in the
 * assay program itself, so that a crash or a hang of a kernel is one verdict. Plain C: no other header is needed. */
#ifndef ASSAY_BACKEND_H
#define ASSAY_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_BACKEND_VERSION 2
#define ASSAY_MAX_RANK 5

/* Bytes with a meaning. shape is in elements, outermost axis first. stride[a] is the distance in BYTES between neighbours
 * on axis a; the innermost axis is always dense (its stride is that of one element, or of one block's bytes / block
 * elements, rounded down). Bytes outside the elements are poison: never read, never write them. A row begins at a multiple
 * of what is stored as a whole (an element, a block), and of no more: a kernel that needs more refuses such strides.
 *
 * `format` is that of these bytes. A scalar or a block with its scales inside (q8_0) is one tensor whose format is the one
 * that the case names. A format with separate scales arrives as several tensors, and none of them has its name: of
 * a=int4_g32 the tensor "a" has format "int4" and shape [rows,cols], and "a.scale" is f32; the attribute "a" says which it
 * is. Along what the scales follow, for a tensor [..., outer, middle, inner] (of two axes: [outer, inner], middle 1; all
 * axes in front of middle count as outer):
 *   *_tensor   NAME.scale [1]                       *_row, int4_ch   NAME.scale [outer * middle]
 *   *_head     NAME.scale [middle]                  *_ch             NAME.scale [middle, inner]
 *   *_tok      NAME.scale [outer]                   *_g32            NAME.scale [outer * middle, inner / 32]
 *   mxfp4, mxfp8, mxfp8_e5m2   NAME.scale e8m0, one for 32 neighbours along inner
 *   int4_g32_bf16, int4_g32_packed   NAME.scale bf16, one for 32 along inner; of the packed one NAME is int32, 8 codes to a
 *              word: from the lowest bits on the elements 0 2 4 6 1 3 5 7
 *   int4_ch_tensor, int4_g32_tensor  NAME.scale f32 [outer * middle] or [outer * middle, inner / 32], and NAME.scale_2 f32 [1]:
 *              number = code * scale * scale_2
 *   nvfp4      NAME.block_scale e4m3fn, one for 16 along inner, and NAME.global_scale f32 [1]: number = code * block / global
 * `assay explain 'CASE'` prints the tensors of a case. */
typedef struct assay_tensor {
  const char* name;
  const char* format;
  void* data;
  int32_t rank;
  int64_t shape[ASSAY_MAX_RANK];
  int64_t stride[ASSAY_MAX_RANK];
} assay_tensor;

typedef struct assay_attribute {
  const char* name;  /* "heads" */
  const char* value; /* "32": text, as in the case line; every attribute of the op is present */
} assay_attribute;

/* How a backend says what it did. Call kernel() once per kernel launched, with the name that its path stands for, and
 * note() for figures of interest: "temporary_bytes" "4096", "target" "AVX3". */
typedef struct assay_trace {
  void* self;
  void (*kernel)(void* self, const char* name);
  void (*note)(void* self, const char* key, const char* value);
} assay_trace;

typedef struct assay_call {
  const char* op;
  const char* variant; /* one of the backend's variants, "" for its own choice */
  const assay_attribute* attributes;
  int32_t attribute_count;
  const assay_tensor* inputs; /* data is NULL in declare() */
  int32_t input_count;
  const assay_tensor* outputs;
  int32_t output_count;
} assay_call;

typedef enum assay_status {
  ASSAY_OK = 0,
  ASSAY_UNSUPPORTED = 1, /* this op, these formats, these shapes: `reason` says what is missing */
  ASSAY_FAILED = 2       /* it should have worked and did not: `reason` says why */
} assay_status;

/* Filled in by declare(): every field is NUL-terminated text.
 *   contract  the arithmetic: "qk=f32 p=f32 pv=f32 out=f16"; `assay explain OP` lists the keys
 *   path      the kernel that must be seen in the trace, "" when nothing is claimed; on a device that a witness watches
 *             (harness/worker/protocol.md), the name of the device function
 *   promises  "deterministic=yes nan=propagate"; "temporary_bytes=0": device memory beyond the tensors; "pairs=symmetric" of K and
 *             V; laws that hold bit for bit (`assay laws`): "batch=bitwise", "order=", "chunk=", "heads=", "pages=", "padding="
 *   reason    why not, for ASSAY_UNSUPPORTED and ASSAY_FAILED */
typedef struct assay_declaration {
  char contract[1024];
  char path[128];
  char promises[128];
  char reason[256];
} assay_declaration;

typedef struct assay_backend {
  uint32_t version; /* ASSAY_BACKEND_VERSION */
  const char* name;
  const char* description; /* library, version, device: one line */
  /* Space-separated names of selectable kernels or targets, "" for one; "OP:NAME" is NAME of that op alone, and calls
   * carry NAME. */
  const char* variants;
  void* self;
  /* Says, without touching data, whether this call can be run and by what arithmetic. */
  assay_status (*declare)(void* self, const assay_call* call, assay_declaration* declaration);
  /* Runs it to completion (results visible in outputs on return). reason has room for 256 bytes. */
  assay_status (*run)(void* self, const assay_call* call, const assay_trace* trace, char* reason);
  void (*close)(void* self);
} assay_backend;

/* The one exported symbol. `options`: what follows the colon of backend=NAME:OPTIONS, or "". Returns NULL and a reason (256
 * bytes) when something is missing here; one that begins with "option" says that `options` are wrong. Both are reported. */
typedef const assay_backend* (*assay_backend_open_fn)(const char* options, char* reason);
#if defined(__GNUC__)
#define ASSAY_EXPORT __attribute__((visibility("default")))
#else
#define ASSAY_EXPORT
#endif
ASSAY_EXPORT const assay_backend* assay_backend_open(const char* options, char* reason);

#ifdef __cplusplus
}
#endif
#endif
