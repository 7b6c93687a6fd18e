#version 460
// f32 scales of operand 1 from the values of operand 0: absmax of the finite ones / divisor, 1 for all-zero;
// nvfp4's global scale: 448 * 6 / absmax. A workgroup finds one scale. real[0]: divisor; integer[0]: 1 sets
// every scale to 1.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kToScaling = 0;

void main() {
  const int length = P.operand[0].payload.width;
  const int rows = P.operand[0].payload.rows;
  const int middle = P.operand[1].middle;
  const bool global = kToScaling == kNv || kToScaling == kNvSwizzled;
  int scales = 1;
  if (!global) scales = P.operand[1].scale.rows * P.operand[1].scale.width;
  for (int s = int(work_item()); s < scales; s += int(work_items())) {
    // The rows and columns that share scale s.
    int row = 0, row_step = 1, row_end = rows, column = 0, column_end = length;
    if (kToScaling == kPerHead) {
      row = s;
      row_step = middle;
    } else if (kToScaling == kPerToken) {
      row = s * middle;
      row_end = row + middle;
    } else if (kToScaling == kPerChannel) {
      row = s / length;
      row_step = middle;
      column = s % length;
      column_end = column + 1;
    } else if (kToScaling == kPerRow) {
      row = s;
      row_end = s + 1;
    } else if (kToScaling == kPerGroup32) {
      const int groups = length / 32;
      row = s / groups;
      row_end = row + 1;
      column = s % groups * 32;
      column_end = column + 32;
    }
    const int width = column_end - column;
    const int count = (row_end - row + row_step - 1) / row_step * width;
    uint largest = 0u;  // magnitudes of finite f32 numbers compare as integers
    if (P.integer[0] == 0) {
      for (int i = int(lane()); i < count; i += int(lanes())) {
        const Row r = open_row(0, row + i / width * row_step, kElement, kScaling);
        const uint m = floatBitsToUint(row_value(0, r, column + i % width, kElement, kScaling, true)) & 0x7FFFFFFFu;
        if (m < 0x7F800000u) largest = max(largest, m);
      }
    }
    largest = subgroupMax(largest);
    if (lane() == 0u) {
      const float absmax = uintBitsToFloat(largest);
      float scale = 1.0;
      uint64_t at;
      if (global) {
        if (largest != 0u && P.integer[0] == 0) scale = div_exact(2688.0, absmax);
        if (!is_finite(scale)) scale = uintBitsToFloat(0x7F7FFFFFu);
        ELEMENT_ADDRESS(P.operand[1].global_scale, 0, at);
      } else {
        if (P.integer[0] == 0) scale = div_exact(absmax, P.real[0]);
        if (floatBitsToUint(scale) == 0u) scale = 1.0;
        ELEMENT_ADDRESS(P.operand[1].scale, s, at);
      }
      store_f32(at, scale);
    }
  }
}
