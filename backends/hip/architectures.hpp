// The one table of which matrix unit an architecture has. Preprocessor symbols, because a code object is
// compiled once for each architecture: a row that is missing here takes the fast path away from that
// architecture without a word from the compiler. The static witness (ci/code_object_witness) is what notices.
//
//   symbol                     instruction                       wave  operands
//   ASSAY_UNIT_WMMA_FP8        v_wmma_f32_16x16x16_fp8_fp8       32    e4m3fn                gfx1200 gfx1201
//   ASSAY_UNIT_WMMA_BF16       v_wmma_f32_16x16x16_bf16          32    bf16                  gfx1200 gfx1201
//   ASSAY_UNIT_WMMA_F16        v_wmma_f32_16x16x16_f16           32    f16                   gfx1100
//   ASSAY_UNIT_MFMA_FP8        v_mfma_f32_16x16x32_fp8_fp8       64    e4m3fnuz              gfx942
//   ASSAY_UNIT_MFMA_BF16       v_mfma_f32_16x16x16_bf16          64    bf16                  gfx90a gfx942
//   ASSAY_UNIT_MFMA_I8_DEEP    v_mfma_i32_16x16x32_i8            64    int8                  gfx942
//   ASSAY_UNIT_MFMA_I8         v_mfma_i32_16x16x16_i8            64    int8                  gfx90a
#pragma once

#if defined(__gfx1200__) || (defined(__gfx1201__) && !defined(ASSAY_TABLE_LACKS_GFX1201))
#define ASSAY_UNIT_WMMA_FP8 1
#define ASSAY_UNIT_WMMA_BF16 1
#endif
#if defined(__gfx1100__)
#define ASSAY_UNIT_WMMA_F16 1
#endif
#if defined(__gfx942__)
#define ASSAY_UNIT_MFMA_FP8 1
#define ASSAY_UNIT_MFMA_BF16 1
#define ASSAY_UNIT_MFMA_I8_DEEP 1
#endif
#if defined(__gfx90a__)
#define ASSAY_UNIT_MFMA_I8 1
#define ASSAY_UNIT_MFMA_BF16 1
#endif

// How a kernel that stands on a unit is compiled:
//   device code of an architecture that has the unit   with it
//   host code                                          an empty body, from which the compiler makes the
//                                                      launch stub
//   device code of any other architecture              not at all; with ASSAY_FALLBACK_WITHOUT_UNIT, as
//                                                      engines do it, by the same name, f32 arithmetic in the
//                                                      unit's place
#if defined(__HIP_DEVICE_COMPILE__)
#define ASSAY_DEVICE_PASS 1
#else
#define ASSAY_DEVICE_PASS 0
#endif
