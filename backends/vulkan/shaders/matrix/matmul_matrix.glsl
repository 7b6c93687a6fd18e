// y[m,n] = a[m,k] b[n,k]^T on cooperative matrices: a subgroup to a tile of 16 x 16. a, b: operands 0 and 1 as
// operands.comp left them, rows padded with zeros to whole tiles; scratch[0], scratch[2]: their scales, one a row.
// y: tensor 0. integer: m, n, padded k. kScaled: codes, scales in the epilogue.
layout(constant_id = 1) const int kScaled = 0;
layout(constant_id = 2) const int kDtype = 0;
shared SUM tile_[256];
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Elements { OPERAND v[]; };

void main() {
  const int m = int(P.integer[0]), n = int(P.integer[1]), k = int(P.integer[2]);
  const int columns = (n + 15) / 16;
  const int items = (m + 15) / 16 * columns;
  for (int item = int(work_item()); item < items; item += int(work_items())) {
    const int i0 = item / columns * 16;
    const int j0 = item % columns * 16;
    coopmat<SUM, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sums =
        coopmat<SUM, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(SUM(0));
    Elements a = Elements(P.operand[0].payload.data);
    Elements b = Elements(P.operand[1].payload.data);
    for (int c = 0; c < k; c += DEPTH) {
      coopmat<OPERAND, gl_ScopeSubgroup, 16, DEPTH, gl_MatrixUseA> left;
      coopmat<OPERAND, gl_ScopeSubgroup, DEPTH, 16, gl_MatrixUseB> right;
      coopMatLoad(left, a.v, uint(i0 * k + c), uint(k), gl_CooperativeMatrixLayoutRowMajor);
      coopMatLoad(right, b.v, uint(j0 * k + c), uint(k), gl_CooperativeMatrixLayoutColumnMajor);
      sums = coopMatMulAdd(left, right, sums);
    }
    coopMatStore(sums, tile_, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (int at = int(lane()); at < 256; at += int(lanes())) {
      const int i = i0 + at / 16;
      const int j = j0 + at % 16;
      if (i >= m || j >= n) continue;
      float y = float(tile_[at]);
      if (kScaled != 0) {
        y *= load_f32(P.scratch[0] + uint64_t(4 * i));
        y *= load_f32(P.scratch[2] + uint64_t(4 * j));
      }
      store_result(tensor_row(0, i), j, y, kDtype);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
  }
}
