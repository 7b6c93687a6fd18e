#version 460
// y[r] = max + log(sum exp(x - max)), in f32. x: operand 0, y: tensor 0.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"

void main() {
  const int width = P.operand[0].payload.width;
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    float top = -infinity();
    FOR_COLUMNS(i, width) {
      const float s = column_value(from, i);
      if (s > top) top = s;
    }
    top = subgroupMax(top);
    // Without a finite maximum there is nothing to shift by: infinities and NaN come out of the sum itself.
    const float shift = is_finite(top) ? top : 0.0;
    float sum = 0.0;
    FOR_COLUMNS(i, width) sum += exp_f32(column_value(from, i) - shift);
    sum = subgroupAdd(sum);
    if (lane() == 0u) store_f32(tensor_element(0, row), shift + log_f32(sum));
  }
}
