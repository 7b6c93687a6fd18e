// y[m,n] = a[m,k] b[n,k]^T: a lane to a row of b, kRows rows of a together. y: tensor 0.
void main() {
  const int m = P.operand[0].payload.rows;
  const int n = P.operand[1].payload.rows;
  const int row_tiles = (m + kRows - 1) / kRows;
  const int column_tiles = (n + int(lanes()) - 1) / int(lanes());
  for (int item = int(work_item()); item < row_tiles * column_tiles; item += int(work_items())) {
    const int first = item / column_tiles * kRows;
    const int j = item % column_tiles * int(lanes()) + int(lane());
    int rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = min(first + r, m - 1);
    float result[kRows];
    products(min(j, n - 1), rows, 0, result);
    for (int r = 0; r < kRows; ++r) {
      if (first + r < m && j < n) store_result(tensor_row(0, first + r), j, result[r], kDtype);
    }
  }
}
