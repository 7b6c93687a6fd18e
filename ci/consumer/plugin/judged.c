/* Tensors of this program's own, judged in its own process: a softmax as it should be, and one that is wrong. */
#include <assay/assay_judge.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 4, COLS = 1000 };
static float x[ROWS * COLS], y[ROWS * COLS];

int main(void) {
  const int64_t shape[] = {ROWS, COLS};
  const assay_array tensors[] = {{"x", "F32", shape, 2, x, sizeof x}, {"y", "F32", shape, 2, y, sizeof y}};
  char* text = NULL;
  int r, i, code;
  for (i = 0; i < ROWS * COLS; ++i) x[i] = sinf((float)i);
  for (r = 0; r < ROWS; ++r) {
    float sum = 0;
    for (i = 0; i < COLS; ++i) sum += y[r * COLS + i] = expf(x[r * COLS + i] - 1);
    for (i = 0; i < COLS; ++i) y[r * COLS + i] /= sum;
  }
  code = assay_judge("softmax rows=4 cols=1000 dtype=f32", "acc=f32 exp_ulp=2", 0, tensors, 2, &text);
  printf("%s", text);
  assay_free(text);
  if (code != ASSAY_GREEN) return 1;
  y[1234] *= 1.001F;
  code = assay_judge("softmax rows=4 cols=1000 dtype=f32", "acc=f32 exp_ulp=2", 0, tensors, 2, &text);
  printf("%s", text);
  assay_free(text);
  return code == ASSAY_FINDING ? 0 : 1;
}
