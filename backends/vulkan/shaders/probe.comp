#version 460
// One function over an array, for tests of the arithmetic itself. scratch: a, b, result, 32 bits each; integer[0]:
// their number. kWhich as below.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "encode.glsl"
#include "integer_dot.glsl"
layout(constant_id = 1) const int kWhich = 0;

void main() {
  const uint units = uint(P.integer[0]);
  for (uint u = work_item() * lanes() + lane(); u < units; u += work_items() * lanes()) {
    const float a = load_f32(P.scratch[0] + uint64_t(u) * 4);
    const float b = load_f32(P.scratch[1] + uint64_t(u) * 4);
    float y = 0.0;
    if (kWhich == 0) y = exp_f32(a);
    if (kWhich == 1) y = log_f32(a);
    if (kWhich == 2) y = tanh_f32(a);
    if (kWhich == 3) y = rsqrt_f32(a);
    if (kWhich == 4) y = quotient_f32(a, b);
    if (kWhich == 5) y = div_exact(a, b);
    if (kWhich == 6) y = mul_exact(a, b);
    if (kWhich == 7) y = add_exact(a, b);
    if (kWhich == 8) y = uintBitsToFloat(f16_code(a));
    if (kWhich == 9) y = uintBitsToFloat(bf16_code(a));
    if (kWhich == 10) y = f16_value(floatBitsToUint(a) & 0xFFFFu);
    if (kWhich == 11) y = intBitsToFloat(dot_int8(floatBitsToInt(a), floatBitsToInt(b)));
    if (kWhich == 12) y = a * b + a;
    if (kWhich == 13) y = subgroupAdd(a);
    if (kWhich == 14) y = a * b;
    store_f32(P.scratch[2] + uint64_t(u) * 4, y);
  }
}
