// A lane's row of weights (operand 1, in its own format) against kRows rows of prepared activations (operand 0,
// from operands.comp). Sums f32, or int32 for integer codes by packed dot products. Scales in the epilogue.
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kPath = 0;  // as in operands.comp; weights of paths 4 and 6: e4m3fn, codes
layout(constant_id = 4) const int kRows = 1;
layout(constant_id = 5) const int kInteger = 0;
layout(constant_id = 6) const int kDtype = 0;
const bool kBare = kPath == 3 || kPath == 6;
const int kReadScaling = kBare ? kUnscaled : kScaling;

float weight_value(Block block, int e) {
  const float w = block_value(block, e, kElement, kReadScaling, false);
  if (kPath == 1) return f16_value(f16_code(w));
  if (kPath == 2) return bf16_value(bf16_code(w));
  if (kPath == 4) return e4m3fn_value(small_code(kE4m3fn, widen(w)));
  return w;
}

// Four neighbours as packed int8.
int weight_codes(uint64_t at, int c) {
  if (kElement == kInt8) return int(load_u32_bytes(at + uint64_t(c)));
  const uint pairs = load_u16_bytes(at + uint64_t(c / 2));
  const uint nibbles = (pairs & 0xFu) | (pairs & 0xF0u) << 4 | (pairs & 0xF00u) << 8 | (pairs & 0xF000u) << 12;
  return int(((nibbles ^ 0x08080808u) | 0x80808080u) - 0x08080808u ^ 0x80808080u);
}
int activation_codes(uint64_t at, int c, int n) {
  uint packed = 0u;
  for (int e = 0; e < n; ++e) packed |= load_u8(at + uint64_t(c + e)) << (8 * e);
  return int(packed);
}

// result[r] = activations[rows[r]] . weights[row], scales applied; activation scales in scratch[scales_].
void products(int row, const int rows[kRows], int scales_, out float result[kRows]) {
  const int length = P.operand[1].payload.width;
  const Row weights = open_row(1, row, kElement, kScaling);
  uint64_t at[kRows];
  float sum[kRows];
  int isum[kRows];
  for (int r = 0; r < kRows; ++r) {
    at[r] = payload_row(0, rows[r]);
    sum[r] = 0.0;
    isum[r] = 0;
  }
  if (kInteger != 0) {
    int c = 0;
    for (; c + 4 <= length; c += 4) {
      const int codes = weight_codes(weights.payload, c);
      for (int r = 0; r < kRows; ++r) isum[r] += dot_int8(activation_codes(at[r], c, 4), codes);
    }
    if (c < length) {  // int4: the bytes of a row hold an even number
      uint packed = 0u;
      for (int e = 0; e < length - c; ++e) {
        const uint code = kElement == kInt8 ? load_u8(weights.payload + uint64_t(c + e))
                                            : uint(int(nibble_pair(weights.payload, c + e) ^ 8u) - 8);
        packed |= (code & 0xFFu) << (8 * e);
      }
      for (int r = 0; r < kRows; ++r) isum[r] += dot_int8(activation_codes(at[r], c, length - c), int(packed));
    }
    for (int r = 0; r < kRows; ++r) sum[r] = float(isum[r]);
  } else {
    for (int c0 = 0; c0 < length; c0 += 32) {
      const Block block = open_block(1, weights, c0 >> 5, kElement, kReadScaling);
      const int n = min(32, length - c0);
      [[dont_unroll]] for (int e0 = 0; e0 < n; e0 += 4) {  // four in one iteration: loops are limited on some devices
        [[unroll]] for (int u = 0; u < 4; ++u) {
          const int e = min(e0 + u, n - 1);
          const float w = weight_value(block, e);
          for (int r = 0; r < kRows; ++r) {
            sum[r] += e0 + u < n ? load_f32(at[r] + uint64_t(4 * (c0 + e))) * w : 0.0;
          }
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (kBare || kPath == 4) sum[r] *= load_f32(P.scratch[scales_] + uint64_t(4 * rows[r]));
    if (kBare) sum[r] *= row_scale(weights, kScaling);
    result[r] = sum[r];
  }
}
