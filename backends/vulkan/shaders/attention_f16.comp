#version 460
// Attention whose scores are products and sums in f16 arithmetic; q and K are f16. The rest as in attention.comp.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define ASSAY_F16
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "attention.glsl"
