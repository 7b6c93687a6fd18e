#version 460
// Cooperative matrices of f16, sums in float.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#include "../common.glsl"
#include "../exact.glsl"
#include "../formats.glsl"
#define OPERAND float16_t
#define SUM float
#define DEPTH 16
#include "matmul_matrix.glsl"
