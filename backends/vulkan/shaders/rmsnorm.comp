#version 460
// y = x / sqrt(mean of x^2 + eps) * gamma per row, f32. x: operand 0; y, gamma: tensors 0, 1; real[0]: eps.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"

void main() {
  const int width = P.operand[0].payload.width;
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    const uint64_t to = tensor_row(0, row);
    float squares = 0.0;
    FOR_COLUMNS(i, width) {
      const float x = column_value(from, i);
      squares += x * x;
    }
    const float mean = div_exact(subgroupAdd(squares), float(width));
    const float deviation = mean + P.real[0];
    const float factor = is_nan(deviation) ? deviation : rsqrt_f32(deviation);
    FOR_COLUMNS(i, width) {
      store_result(to, i, column_value(from, i) * factor * load_f32(tensor_element(1, i)), kDtype);
    }
  }
}
