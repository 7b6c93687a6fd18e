#version 460
// f32 scales of operand 1 from the magnitudes in scratch[1] (group_absmax.comp): absmax / real[0], 1 for all-zero;
// nvfp4's global scale: 448 * 6 / absmax. integer[0]: their number; integer[1]: 1 sets every scale to 1.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 1) const int kToScaling = 0;

void main() {
  const bool global = kToScaling == kNv || kToScaling == kNvSwizzled;
  const bool ones = P.integer[1] != 0;
  for (uint s = work_item() * lanes() + lane(); s < uint(P.integer[0]); s += work_items() * lanes()) {
    const uint largest = load_u32(P.scratch[1] + uint64_t(s) * 4);
    float scale = 1.0;
    uint64_t at;
    if (global) {
      if (largest != 0u && !ones) scale = div_exact(2688.0, uintBitsToFloat(largest));
      if (!is_finite(scale)) scale = uintBitsToFloat(0x7F7FFFFFu);
      ELEMENT_ADDRESS(P.operand[1].global_scale, 0, at);
    } else {
      if (!ones) scale = div_exact(uintBitsToFloat(largest), P.real[0]);
      if (floatBitsToUint(scale) == 0u) scale = 1.0;
      ELEMENT_ADDRESS(P.operand[1].scale, int(s), at);
    }
    store_f32(at, scale);
  }
}
