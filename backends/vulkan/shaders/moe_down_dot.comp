#version 460
// moe_down, packed integer dot products.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "encode.glsl"
#include "integer_dot.glsl"
#include "product.glsl"
#include "moe_down.glsl"
