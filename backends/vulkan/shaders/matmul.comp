#version 460
// matmul, f32 sums; integer codes in plain int.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "encode.glsl"
#include "plain_dot.glsl"
#include "product.glsl"
#include "matmul.glsl"
