#version 460
// scratch[1] = largest finite magnitude of operand 0, by one workgroup.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
void main() {
  uint largest = 0u;
  for (int row = 0; row < P.operand[0].payload.rows; ++row) {
    const Row from = open_row(0, row, kElement, kScaling);
    for (int c = int(lane()); c < P.operand[0].payload.width; c += int(lanes())) {
      const uint m = floatBitsToUint(row_value(0, from, c, kElement, kScaling, false)) & 0x7FFFFFFFu;
      if (m < 0x7F800000u) largest = max(largest, m);
    }
  }
  largest = subgroupMax(largest);
  if (lane() == 0u) store_u32(P.scratch[1], largest);
}
