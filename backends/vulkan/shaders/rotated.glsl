// V in TQ3_0 before its inverse transform: scale times codebook value, for kernels that transform once per output row.
// Apart from formats.glsl, of which the shaders in matrix/ are made too.
const int kTq3C2s1Rotated = 27, kTq3C2Rotated = 28;

int stored_element(int element) { return element < kTq3C2s1Rotated ? element : element - kTq3C2s1Rotated + kTq3C2s1; }

float rotated_value(int operand, Row row, int column, int element, int scaling) {
  const int e = column & 31;
  const Block b = open_block(operand, row, column >> 5, stored_element(element), scaling);
  const bool positive = (b.bits.y >> e & 1u) != 0u;
  const int cell = ((b.bits.x ^ b.bits.y) >> e & 1u) != 0u ? 0 : 1;
  double level = positive ? kTq3Centroid[cell] : -kTq3Centroid[cell];
  if (element == kTq3C2s1Rotated) level += (b.bits.z >> e & 1u) != 0u ? kTq3Spread[cell] : -kTq3Spread[cell];
  return narrow(level * double(b.scale));
}
