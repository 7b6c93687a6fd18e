/* What a witness is: a shared library in the worker process that sees which kernels a device was really given, whoever
 * launched them: the backend under test, or a library below it. A backend says what it ran; a witness saw it.
 *
 * The worker loads the library that ASSAY_WITNESS names before it opens the backend, calls assay_witness_open() once,
 * and assay_witness_collect() in front of each run (to forget) and behind it. Plain C, so that a worker in any language
 * can do it. */
#ifndef ASSAY_WITNESS_H
#define ASSAY_WITNESS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ASSAY_WITNESS_EXPORT __attribute__((visibility("default")))
#else
#define ASSAY_WITNESS_EXPORT
#endif

/* Starts to watch. NULL when it does; otherwise why it cannot: nobody watches then, and the run says so. */
ASSAY_WITNESS_EXPORT const char* assay_witness_open(void);

/* What was seen since the last call, as the JSON text of the member `witness` of a `done` reply (protocol.md). All work
 * given to the device before the call is in it. Valid until the next call. */
ASSAY_WITNESS_EXPORT const char* assay_witness_collect(void);

/* May be left out by a witness that sees every kernel there is: whether one of this name would have been seen. Of a name
 * that would not, the witness proves nothing. */
ASSAY_WITNESS_EXPORT int assay_witness_watches(const char* name);

/* May be left out: how much is watched of what was loaded since assay_witness_open(), as a person reads it: "312 routines";
 * "" for nothing. Valid until the next call. */
ASSAY_WITNESS_EXPORT const char* assay_witness_scope(void);

typedef const char* (*assay_witness_open_fn)(void);
typedef const char* (*assay_witness_scope_fn)(void);
typedef const char* (*assay_witness_collect_fn)(void);
typedef int (*assay_witness_watches_fn)(const char* name);

#ifdef __cplusplus
}
#endif
#endif
