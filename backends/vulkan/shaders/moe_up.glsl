// h = silu(g) * u for every token and each of its experts: [g, u] = w13[e] x. Operand 1: w13; scratch[2]: h, f32
// [tokens * topk][inter]. tensor 1: topk_ids. integer: topk, inter. A lane to a row of h.
void main() {
  const int tokens = P.operand[0].payload.rows;
  const int topk = int(P.integer[0]);
  const int inter = int(P.integer[1]);
  const int tiles = (inter + int(lanes()) - 1) / int(lanes());
  for (int item = int(work_item()); item < tokens * topk * tiles; item += int(work_items())) {
    const int slot = item / tiles;
    const int i = item % tiles * int(lanes()) + int(lane());
    const int expert = load_i32(tensor_element(1, slot));
    const int row = expert * 2 * inter + min(i, inter - 1);
    int rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = slot / topk;
    float gate[kRows];
    float up[kRows];
    products(row, rows, 0, gate);
    products(row + inter, rows, 0, up);
    // silu: exp within 0.51 ulp, an addition and a quotient
    const float g = gate[0];
    const float h = quotient_f32(g, 1.0 + exp_f32(-g)) * up[0];
    if (i < inter) store_f32(P.scratch[2] + uint64_t(4 * (slot * inter + i)), h);
  }
}
