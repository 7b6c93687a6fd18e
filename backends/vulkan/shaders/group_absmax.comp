#version 460
// Largest finite magnitude of operand 0 in each of the groups that share an f32 scale of operand 1, as bits in
// scratch[1] (zeros before): magnitudes of finite f32 numbers compare as integers. A lane takes blocks of 32
// neighbours; kToScaling kUnscaled or of nvfp4: one group.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kToScaling = 0;
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint v; };

void main() {
  const int length = P.operand[0].payload.width;
  const int blocks = (length + 31) / 32;
  const uint units = uint(P.operand[0].payload.rows) * uint(blocks);
  const int middle = P.operand[1].middle;
  for (uint u = work_item() * lanes() + lane(); u < units; u += work_items() * lanes()) {
    const int row = int(u / uint(blocks));
    const int block = int(u % uint(blocks));
    const Block b = open_block(0, open_row(0, row, kElement, kScaling), block, kElement, kScaling);
    int group = 0;
    if (kToScaling == kPerHead) group = row % middle;
    if (kToScaling == kPerToken) group = row / middle;
    if (kToScaling == kPerRow) group = row;
    if (kToScaling == kPerGroup32) group = row * (length / 32) + block;
    uint largest = 0u;
    const int count = min(32, length - 32 * block);
    [[dont_unroll]] for (int e = 0; e < count; ++e) {
      const uint m = floatBitsToUint(block_value(b, e, kElement, kScaling, true)) & 0x7FFFFFFFu;
      if (m >= 0x7F800000u) continue;
      if (kToScaling == kPerChannel) {
        group = row % middle * length + 32 * block + e;
        atomicMax(Counters(P.scratch[1] + uint64_t(4 * group)).v, m);
      }
      largest = max(largest, m);
    }
    if (kToScaling != kPerChannel) atomicMax(Counters(P.scratch[1] + uint64_t(4 * group)).v, largest);
  }
}
