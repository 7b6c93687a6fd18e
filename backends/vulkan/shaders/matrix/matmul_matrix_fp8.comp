#version 460
// Cooperative matrices of FP8, sums in float. The compiler knows no 8-bit floats: the operands are written as float16_t, and the
// generator makes e4m3 of that type. How deep the device's matrices are is a constant.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#include "../common.glsl"
#include "../exact.glsl"
#include "../formats.glsl"
layout(constant_id = 3) const int kDepth = 32;
#define OPERAND float16_t
#define SUM float
#define DEPTH kDepth
#include "matmul_matrix.glsl"
