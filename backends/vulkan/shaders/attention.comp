#version 460
// Scalar f32 attention that reads K and V in their own formats.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "attention.glsl"
