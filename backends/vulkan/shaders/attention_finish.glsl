// The end of a row: sink, quotient, inverse transform where asked, rounding. acc[first .. first + kDv) holds the
// sums; every lane owns the columns lane(), lane() + lanes(), ...
void finish_row(int first, int out_row, float top, float sum, float sink) {
  float factor = 1.0;
  if (kSinks && !(sum == 0.0 && top == -infinity())) {
    if (sink > top) {
      factor = exp_f32(top - sink);
      sum *= factor;
      top = sink;
    }
    sum += exp_f32(sink - top);
  }
  for (int c = int(lane()); c < kDv; c += int(lanes())) {
    acc[first + c] = sum == 0.0 ? 0.0 : quotient_f32(acc[first + c] * factor, sum);
  }
  if (kUnrotate) {
    settle();
    for (int s = 0; s < 5; ++s) {
      for (int pair = int(lane()); pair < kDv / 2; pair += int(lanes())) {
        const int i = first + (pair >> s << (s + 1)) + (pair & ((1 << s) - 1));
        const float a = acc[i];
        const float b = acc[i + (1 << s)];
        acc[i] = a + b;
        acc[i + (1 << s)] = a - b;
      }
      settle();
    }
  }
  const uint64_t to = tensor_row(0, out_row);
  for (int c = int(lane()); c < kDv; c += int(lanes())) {
    float y = acc[first + c];
    if (kUnrotate) y *= (kTq3Signs >> (c & 31) & 1u) != 0u ? -0.17677669529663687 : 0.17677669529663687;
    store_result(to, c, y, kDtype);
  }
}
