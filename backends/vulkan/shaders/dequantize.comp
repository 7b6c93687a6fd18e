#version 460
// y = the numbers that x's codes stand for, in f32, f16 or bf16. x: operand 0, y: tensor 0.
// A lane takes blocks of 32 neighbours.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kDtype = 0;

void main() {
  const int length = P.operand[0].payload.width;
  const int blocks = (length + 31) / 32;
  const uint units = uint(P.operand[0].payload.rows) * uint(blocks);
  for (uint u = work_item() * lanes() + lane(); u < units; u += work_items() * lanes()) {
    const int row = int(u / uint(blocks));
    const int block = int(u % uint(blocks));
    const Row r = open_row(0, row, kElement, kScaling);
    const Block b = open_block(0, r, block, kElement, kScaling);
    const uint64_t to = tensor_row(0, row);
    const int count = min(32, length - 32 * block);
    for (int e = 0; e < count; ++e) {
      store_result(to, 32 * block + e, block_value(b, e, kElement, kScaling, true), kDtype);
    }
  }
}
