#version 460
// Attention whose scores are integer dot products of blocks of q8_0 (q, rounded here) and q8_0 or q4_0 (K).
#extension GL_GOOGLE_include_directive : require
#define ASSAY_Q8
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "integer_dot.glsl"
#include "attention.glsl"
