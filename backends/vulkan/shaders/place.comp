#version 460
// Row (slots[t], h) of operand 1, in f32, is row (t, h) of operand 0. tensor 0: slots; integer[0]: heads.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"
void main() {
  const int heads = int(P.integer[0]);
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    const uint64_t to = payload_row(1, load_i32(tensor_element(0, row / heads)) * heads + row % heads);
    FOR_COLUMNS(i, P.operand[0].payload.width) store_f32(to + uint64_t(4 * i), column_value(from, i));
  }
}
