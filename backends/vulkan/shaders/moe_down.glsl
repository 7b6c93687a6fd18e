// y[t] = sum_k c_k w2[e_k] h[t,k]. Operand 0: h as prepared; operand 1: w2; tensors: y, topk_ids, topk_weights.
// integer: topk, hidden. A lane to a column of y.
void main() {
  const int topk = int(P.integer[0]);
  const int hidden = int(P.integer[1]);
  const int tokens = P.operand[0].payload.rows / topk;
  const int tiles = (hidden + int(lanes()) - 1) / int(lanes());
  for (int item = int(work_item()); item < tokens * tiles; item += int(work_items())) {
    const int token = item / tiles;
    const int c = item % tiles * int(lanes()) + int(lane());
    float y = 0.0;
    for (int k = 0; k < topk; ++k) {
      const int slot = token * topk + k;
      const int expert = load_i32(tensor_element(1, slot));
      int rows[kRows];
      for (int r = 0; r < kRows; ++r) rows[r] = slot;
      float down[kRows];
      products(expert * hidden + min(c, hidden - 1), rows, 0, down);
      y += load_f32(tensor_element(2, slot)) * down[0];
    }
    if (c < hidden) store_result(tensor_row(0, token), c, y, kDtype);
  }
}
