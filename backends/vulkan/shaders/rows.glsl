// Rows of operand 0 in f32, f16 or bf16, one workgroup to a row, columns over the lanes. Include after
// formats.glsl; constant 1 is the dtype of x and y.
layout(constant_id = 1) const int kDtype = 0;

float column_value(uint64_t row, int column) {
  if (kDtype == kF32) return load_f32(row + uint64_t(4 * column));
  const uint code = load_u16(row + uint64_t(2 * column));
  return kDtype == kF16 ? f16_value(code) : bf16_value(code);
}
#define FOR_ROWS(row) for (int row = int(work_item()); row < P.operand[0].payload.rows; row += int(work_items()))
#define FOR_COLUMNS(i, end) for (int i = int(lane()); i < end; i += int(lanes()))
