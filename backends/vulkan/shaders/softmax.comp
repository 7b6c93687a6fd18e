#version 460
// y = softmax(cap(x / temperature)) along the last axis; cap(s) = softcap tanh(s / softcap). A sink is one more
// logit of the denominator. x: operand 0; y, mask, sinks: tensors 0, 1, 2. real: temperature, softcap.
// Maximum, sum of exponentials, quotient: f32, three passes.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"
layout(constant_id = 2) const int kMask = 0;  // 0 none, 1 causal, 2 tensor 1
layout(constant_id = 3) const int kSinks = 0;
layout(constant_id = 4) const int kTemperature = 0;
layout(constant_id = 5) const int kSoftcap = 0;

bool visible(int row, int column) {
  if (kMask == 2) return load_u8(tensor_element(1, row * P.operand[0].payload.width + column)) != 0u;
  return true;
}
float logit(uint64_t from, int column) {
  float s = column_value(from, column);
  if (kTemperature != 0) s = quotient_f32(s, P.real[0]);
  if (kSoftcap != 0) s = P.real[1] * tanh_f32(quotient_f32(s, P.real[1]));
  return s;
}

void main() {
  const int width = P.operand[0].payload.width;
  const int rows = P.operand[0].payload.rows;
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    const uint64_t to = tensor_row(0, row);
    const int end = kMask == 1 ? clamp(width - rows + row + 1, 0, width) : width;
    float top = -infinity();
    int seen = 0;
    FOR_COLUMNS(i, end) {
      if (!visible(row, i)) continue;
      const float s = logit(from, i);
      if (s > top) top = s;  // a NaN shows in the sum
      seen = 1;
    }
    top = subgroupMax(top);
    const bool any = subgroupMax(seen) != 0;
    float sink = -infinity();
    if (kSinks != 0) {
      sink = load_f32(tensor_element(2, row));
      if (sink > top) top = sink;
    }
    float sum = 0.0;
    FOR_COLUMNS(i, end) {
      if (visible(row, i)) sum += exp_f32(logit(from, i) - top);
    }
    sum = subgroupAdd(sum);
    if (kSinks != 0) sum += exp_f32(sink - top);
    // A masked logit weighs 0 / sum: NaN in a row poisons all of it.
    const float masked = any && is_nan(sum) ? sum : 0.0;
    FOR_COLUMNS(i, width) {
      float y = masked;
      if (i < end && visible(row, i)) y = quotient_f32(exp_f32(logit(from, i) - top), sum);
      store_result(to, i, y, kDtype);
    }
  }
}
