#version 460
// Parts of a split attention become rows: weights exp(top_part - top). integer, tensors, constants and scratch[0]
// as in attention.glsl; operand 0 is not read.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 5) const int kDtype = 0;
layout(constant_id = 8) const int kDv = 32;
layout(constant_id = 9) const int kFlags = 0;
const bool kSinks = (kFlags & 2) != 0, kUnrotate = (kFlags & 16) != 0;
shared float acc[kDv];
void settle() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}
#include "attention_finish.glsl"

void main() {
  const int heads = int(P.integer[1]);
  const int rows = int(P.integer[0] * P.integer[3]) * heads;
  const int parts = int(P.integer[8]);
  for (int row = int(work_item()); row < rows; row += int(work_items())) {
    const uint64_t first = P.scratch[0] + uint64_t(row) * uint64_t(4 * (kDv + 2));
    const uint64_t stride = uint64_t(rows) * uint64_t(4 * (kDv + 2));
    float top = -infinity();
    for (int p = 0; p < parts; ++p) {
      const float t = load_f32(first + uint64_t(p) * stride);
      if (t > top) top = t;
    }
    for (int c = int(lane()); c < kDv; c += int(lanes())) acc[c] = 0.0;
    float sum = 0.0;
    for (int p = 0; p < parts; ++p) {
      const uint64_t at = first + uint64_t(p) * stride;
      const float part_top = load_f32(at);
      const float part_sum = load_f32(at + 4);
      if (part_sum == 0.0) continue;  // saw nothing
      const float w = part_top == top ? 1.0 : exp_f32(part_top - top);
      sum += w * part_sum;
      for (int c = int(lane()); c < kDv; c += int(lanes())) acc[c] += w * load_f32(at + uint64_t(8 + 4 * c));
    }
    float sink = -infinity();
    if (kSinks) sink = load_f32(tensor_element(4, row % heads));
    finish_row(0, row, top, sum, sink);
    settle();
  }
}
