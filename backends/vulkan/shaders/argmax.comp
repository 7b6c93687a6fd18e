#version 460
// y[r] = index of the largest element, the first of equals: best = 0, replaced when x[i] > x[best]. So a NaN
// never wins, and a NaN at 0 stays. kChecked: a row with NaN gives -(i + 1), i the first one's index.
// x: operand 0, y: tensor 0 (int32).
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"
layout(constant_id = 2) const int kChecked = 0;

void main() {
  const int width = P.operand[0].payload.width;
  const int none = 0x7FFFFFFF;
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    float top = -infinity();
    int best = none;
    int nan = none;
    FOR_COLUMNS(i, width) {
      const float x = column_value(from, i);
      if (is_nan(x)) {
        nan = min(nan, i);
      } else if (x > top || best == none) {
        top = x;
        best = i;
      }
    }
    const float largest = subgroupMax(best == none ? -infinity() : top);
    best = subgroupMin(best != none && top == largest ? best : none);
    nan = subgroupMin(nan);
    int result = best == none || nan == 0 ? 0 : best;
    if (kChecked != 0 && nan != none) result = -nan - 1;
    if (lane() == 0u) store_u32(tensor_element(0, row), uint(result));
  }
}
