#version 460
// y = H D x / sqrt(points) per group of `points` columns; inverse: y = D H x / sqrt(points). D holds the signs:
// bit j of the packed words set means -1. Butterflies in f32, one product with 1 / sqrt(points) at the end.
// x: operand 0; y, signs: tensors 0, 1; scratch[0]: a row of f32 for each workgroup; integer: points, log2 of
// them; real[0]: 1 / sqrt(points).
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"
layout(constant_id = 2) const int kSigns = 0;
layout(constant_id = 3) const int kInverse = 0;

float flipped(float x, int j) {
  if (kSigns == 0) return x;
  const uint word = load_u32(tensor_element(1, j >> 5));
  return (word >> (j & 31) & 1u) != 0u ? -x : x;
}
void settle() {
  subgroupMemoryBarrierBuffer();
  subgroupBarrier();
}

void main() {
  const int width = P.operand[0].payload.width;
  const int points = int(P.integer[0]);
  const int steps = int(P.integer[1]);
  const uint64_t line = P.scratch[0] + uint64_t(work_item()) * uint64_t(4 * width);
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    const uint64_t to = tensor_row(0, row);
    FOR_COLUMNS(i, width) {
      const float x = column_value(from, i);
      store_f32(line + uint64_t(4 * i), kInverse == 0 ? flipped(x, i & (points - 1)) : x);
    }
    settle();
    for (int s = 0; s < steps; ++s) {
      const int half_ = 1 << s;
      FOR_COLUMNS(pair, width / 2) {
        const int i = (pair >> s << (s + 1)) + (pair & (half_ - 1));
        const float a = load_f32(line + uint64_t(4 * i));
        const float b = load_f32(line + uint64_t(4 * (i + half_)));
        store_f32(line + uint64_t(4 * i), a + b);
        store_f32(line + uint64_t(4 * (i + half_)), a - b);
      }
      settle();
    }
    FOR_COLUMNS(i, width) {
      const float x = load_f32(line + uint64_t(4 * i)) * P.real[0];
      store_result(to, i, kInverse != 0 ? flipped(x, i & (points - 1)) : x, kDtype);
    }
    settle();
  }
}
