#version 460
// y = (x - mean) / sqrt(variance + eps) * gamma + beta per row, f32. x: operand 0; y, gamma, beta: tensors 0, 1,
// 2; real[0]: eps. Variance: two_pass, one_pass (mean of x^2 less mean^2, held at 0), one_pass_unclamped (a
// defect on purpose), welford (running update by each lane over a row of its own).
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "rows.glsl"
const int kTwoPass = 0, kOnePass = 1, kUnclamped = 2, kWelford = 3;
layout(constant_id = 2) const int kVariance = kTwoPass;

void main() {
  const int width = P.operand[0].payload.width;
  const float n = float(width);
  FOR_ROWS(row) {
    const uint64_t from = payload_row(0, row);
    const uint64_t to = tensor_row(0, row);
    float mean = 0.0;
    float variance = 0.0;
    if (kVariance == kWelford) {
      // Every lane computes the same: the update is sequential.
      float count = 0.0;
      float squares = 0.0;
      for (int i = 0; i < width; ++i) {
        count += 1.0;
        const float value = column_value(from, i);
        const float before = value - mean;
        mean += quotient_f32(before, count);
        squares += before * (value - mean);
      }
      variance = div_exact(squares, n);
    } else {
      float sum = 0.0;
      FOR_COLUMNS(i, width) sum += column_value(from, i);
      mean = div_exact(subgroupAdd(sum), n);
      const float shift = kVariance == kTwoPass ? mean : 0.0;
      float squares = 0.0;
      FOR_COLUMNS(i, width) {
        const float d = column_value(from, i) - shift;
        squares += d * d;
      }
      variance = div_exact(subgroupAdd(squares), n);
      if (kVariance != kTwoPass) {
        precise const float square = mean * mean;
        variance -= square;
      }
      if (kVariance == kOnePass && variance < 0.0) variance = 0.0;  // NaN stays NaN
    }
    const float deviation = variance + P.real[0];
    const float factor = deviation < 0.0 || is_nan(deviation) ? not_a_number() : rsqrt_f32(deviation);
    FOR_COLUMNS(i, width) {
      const float gamma = load_f32(tensor_element(1, i));
      const float beta = load_f32(tensor_element(2, i));
      store_result(to, i, (column_value(from, i) - mean) * factor * gamma + beta, kDtype);
    }
  }
}
