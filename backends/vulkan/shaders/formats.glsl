// Numbers by their codes. A format is an element and a scaling, both known when a pipeline is made
// (specialisation constants): what is not of the format is not in the pipeline. The C++ twins: formats.hpp.
// Include after common.glsl and exact.glsl.
const int kF32 = 0, kF16 = 1, kBf16 = 2, kTf32 = 3, kE4m3fn = 4, kE4m3fnuz = 5, kE5m2 = 6, kE5m2fnuz = 7;
const int kE3m2 = 8, kE2m3 = 9, kE2m1 = 10, kE8m0 = 11, kUe4m3 = 12, kUint8 = 13, kInt8 = 14, kInt4 = 15;
const int kInt32 = 16, kQ8_0 = 17, kQ4_0 = 18, kQ4_1 = 19, kQ5_0 = 20, kQ5_1 = 21, kIq4Nl = 22;
const int kMxfp4Ggml = 23, kTq3C2s1 = 24, kTq3C2 = 25;
const int kInt4Words = 26;  // eight to a word: from its lowest bits on the elements 0 2 4 6 1 3 5 7

const int kUnscaled = 0, kPerTensor = 1, kPerHead = 2, kPerToken = 3, kPerChannel = 4, kPerRow = 5;
const int kPerGroup32 = 6;  // f32 scale of 32 neighbours
const int kMx = 7;          // e8m0 scale of 32 neighbours
const int kNv = 8;          // e4m3fn scale of 16 neighbours, one f32 that divides
const int kNvSwizzled = 9;  // the same, block scales in tiles of 128 x 4
const int kPerRowTwice = 10, kPerGroup32Twice = 11;  // kPerRow, kPerGroup32, and one more f32 of the tensor
const int kPerGroup32Bf16 = 12;

// ---- scalar codes to values: exact, no f32 subnormal is formed but by bits

// Small float from its fields; m: magnitude bits, 0x7FF...: not special.
float small_value(uint code, int exponent_bits, int fraction_bits, int bias) {
  const uint sign = code >> (exponent_bits + fraction_bits) & 1u;
  const uint exponent = code >> fraction_bits & ((1u << exponent_bits) - 1u);
  const uint fraction = code & ((1u << fraction_bits) - 1u);
  const uint significand = exponent == 0u ? fraction : fraction | 1u << fraction_bits;
  const int power = max(int(exponent), 1) - bias - fraction_bits;  // a normal power of two in f32
  const float value = float(significand) * uintBitsToFloat(uint(power + 127) << 23);
  return uintBitsToFloat(floatBitsToUint(value) | sign << 31);
}
float e4m3fn_value(uint code) {
  return (code & 0x7Fu) == 0x7Fu ? not_a_number() : small_value(code, 4, 3, 7);
}
float e4m3fnuz_value(uint code) { return code == 0x80u ? not_a_number() : small_value(code, 4, 3, 8); }
float e5m2fnuz_value(uint code) { return code == 0x80u ? not_a_number() : small_value(code, 5, 2, 16); }
float e5m2_value(uint code) {
  if ((code & 0x7Cu) == 0x7Cu) {
    return (code & 3u) != 0u ? not_a_number() : uintBitsToFloat(code >> 7 << 31 | 0x7F800000u);
  }
  return small_value(code, 5, 2, 15);
}
float e2m1_value(uint code) { return small_value(code, 2, 1, 1); }
float e8m0_value(uint code) {
  if (code == 0xFFu) return not_a_number();
  return uintBitsToFloat(code == 0u ? 0x00400000u : code << 23);
}
float f16_value(uint code) {
  const uint sign = (code & 0x8000u) << 16;
  const uint exponent = code >> 10 & 0x1Fu;
  const uint fraction = code & 0x3FFu;
  if (exponent == 0x1Fu) return uintBitsToFloat(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0u) {
    return uintBitsToFloat(sign | floatBitsToUint(float(fraction) * 5.9604644775390625e-8));  // 2^-24
  }
  return uintBitsToFloat(sign | (exponent + 112u) << 23 | fraction << 13);
}
float bf16_value(uint code) { return uintBitsToFloat(code << 16); }

const float kIq4NlValues[16] = float[](-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0,
                                       25.0, 38.0, 53.0, 69.0, 89.0, 113.0);

// ---- tq3_0: 32 elements in 14 bytes, stored rotated. x_e = sign_e d / sqrt(32) sum_j (-1)^|e & j| r_j with
// r_j = +-centroid +- spread of two cells: four signed counts of bits instead of a transform.
const uint kTq3Signs = 0xB1A6D4B2u;
// Lloyd-Max of a unit normal, 2 bits, and the mean distance from the centroid within a cell; f32 numbers.
const double kTq3Centroid[2] = double[](0.4527800381183624lf, 1.5104175806045532lf);
const double kTq3Spread[2] = double[](0.23873424530029297lf, 0.3508186340332031lf);
const double kTq3Threshold = 0.981598821567794lf;

uint even_bits(uint x) {
  x &= 0x55555555u;
  x = (x | x >> 1) & 0x33333333u;
  x = (x | x >> 2) & 0x0F0F0F0Fu;
  x = (x | x >> 4) & 0x00FF00FFu;
  return (x | x >> 8) & 0xFFFFu;
}
uint hadamard_row(int e) {  // bit j: parity of e & j
  return ((e & 1) != 0 ? 0xAAAAAAAAu : 0u) ^ ((e & 2) != 0 ? 0xCCCCCCCCu : 0u) ^
         ((e & 4) != 0 ? 0xF0F0F0F0u : 0u) ^ ((e & 8) != 0 ? 0xFF00FF00u : 0u) ^
         ((e & 16) != 0 ? 0xFFFF0000u : 0u);
}
int signed_count(uint members, uint negative) { return bitCount(members) - 2 * bitCount(members & negative); }

// ---- a row of a tensor, opened for reading; then blocks of 32 elements of it

struct Row {
  uint64_t payload;
  uint64_t scales;  // address of the row's scales, where there is more than one
  float scale;      // of the whole row
  float global_scale;
  int row;
};

Row open_row(int operand, int row, int element, int scaling) {
  Row r;
  r.row = row;
  r.payload = payload_row(operand, row);
  r.scales = 0;
  r.scale = 1.0;
  r.global_scale = 1.0;
  const int middle = P.operand[operand].middle;
  if (scaling == kPerTensor || scaling == kPerHead || scaling == kPerToken || scaling == kPerRow ||
      scaling == kPerRowTwice) {
    const int index = scaling == kPerHead     ? row % middle
                      : scaling == kPerToken  ? row / middle
                      : scaling == kPerTensor ? 0
                                              : row;
    uint64_t at;
    ELEMENT_ADDRESS(P.operand[operand].scale, index, at);
    r.scale = load_f32(at);
  } else if (scaling == kPerChannel) {
    ROW_ADDRESS(P.operand[operand].scale, row % middle, r.scales);
  } else if (scaling == kPerGroup32 || scaling == kPerGroup32Twice) {
    ELEMENT_ADDRESS(P.operand[operand].scale, row * (P.operand[operand].payload.width / 32), r.scales);
  } else if (scaling == kMx || scaling == kPerGroup32Bf16) {
    ROW_ADDRESS(P.operand[operand].scale, row, r.scales);
  }
  if (scaling == kNv || scaling == kNvSwizzled || scaling == kPerRowTwice || scaling == kPerGroup32Twice) {
    uint64_t at;
    ELEMENT_ADDRESS(P.operand[operand].global_scale, 0, at);
    r.global_scale = load_f32(at);
  }
  return r;
}
// What a row of codes is multiplied by; two scales are rounded to one.
float row_scale(Row row, int scaling) {
  return scaling == kPerRowTwice ? mul_exact(row.scale, row.global_scale) : row.scale;
}

// Where nvfp4 keeps the scale of block `column` (of 16) of a row.
uint64_t block_scale_address(int operand, int row, int column, int scaling) {
  const int columns = P.operand[operand].payload.width / 16;
  int index = row * columns + column;
  if (scaling == kNvSwizzled) {
    const int rows = P.operand[operand].matrix_rows;
    const int padded_rows = (rows + 127) / 128 * 128;
    const int padded_columns = (columns + 3) / 4 * 4;
    const int r = row % rows;
    const int tile = r / 128 * (padded_columns / 4) + column / 4;
    index = row / rows * padded_rows * padded_columns + tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + column % 4;
  }
  uint64_t at;
  ELEMENT_ADDRESS(P.operand[operand].block_scale, index, at);
  return at;
}

// 32 neighbours of a row with what they share.
struct Block {
  uint64_t at;     // of the first element's byte, or of the ggml block
  uint64_t scales;
  float scale;
  float other;     // minimum of q4_1 and q5_1; second block scale of nvfp4
  float global_scale;
  uvec4 bits;      // fifth bits; the planes of tq3_0: low, high, sign
};

Block open_block(int operand, Row row, int block, int element, int scaling) {
  Block b;
  b.at = row.payload;
  b.scales = row.scales;
  b.scale = row.scale;
  b.other = 0.0;
  b.global_scale = row.global_scale;
  b.bits = uvec4(0u);
  if (element == kF32 || element == kTf32 || element == kInt32) b.at += uint64_t(128 * block);
  else if (element == kF16 || element == kBf16) b.at += uint64_t(64 * block);
  else if (element == kE2m1 || element == kInt4 || element == kInt4Words) b.at += uint64_t(16 * block);
  else if (element == kQ8_0) b.at += uint64_t(34 * block);
  else if (element == kQ4_0 || element == kIq4Nl) b.at += uint64_t(18 * block);
  else if (element == kQ4_1) b.at += uint64_t(20 * block);
  else if (element == kQ5_0) b.at += uint64_t(22 * block);
  else if (element == kQ5_1) b.at += uint64_t(24 * block);
  else if (element == kMxfp4Ggml) b.at += uint64_t(17 * block);
  else if (element == kTq3C2s1 || element == kTq3C2) b.at += uint64_t(14 * block);
  else b.at += uint64_t(32 * block);

  if (element == kQ8_0 || element == kQ4_0 || element == kQ4_1 || element == kQ5_0 || element == kQ5_1 ||
      element == kIq4Nl) {
    b.scale = f16_value(load_u16_bytes(b.at));
  }
  if (element == kQ4_1 || element == kQ5_1) b.other = f16_value(load_u16_bytes(b.at + 2));
  if (element == kQ5_0) b.bits.x = load_u32_bytes(b.at + 2);
  if (element == kQ5_1) b.bits.x = load_u32_bytes(b.at + 4);
  if (element == kTq3C2s1 || element == kTq3C2) {
    const uint first = load_u32_bytes(b.at);
    const uint second = load_u32_bytes(b.at + 4);
    b.bits.x = even_bits(first) | even_bits(second) << 16;
    b.bits.y = even_bits(first >> 1) | even_bits(second >> 1) << 16;
    b.bits.z = load_u32_bytes(b.at + 8);
    b.scale = f16_value(load_u16_bytes(b.at + 12));
  }
  if (scaling == kPerChannel) b.scales += uint64_t(128 * block);
  if (scaling == kPerGroup32 || scaling == kPerGroup32Twice) b.scale = load_f32(row.scales + uint64_t(4 * block));
  if (scaling == kPerGroup32Bf16) b.scale = bf16_value(load_u16(row.scales + uint64_t(2 * block)));
  if (scaling == kMx) b.scale = e8m0_value(load_u8(row.scales + uint64_t(block)));
  if (scaling == kNv || scaling == kNvSwizzled) {
    b.scale = e4m3fn_value(load_u8(block_scale_address(operand, row.row, 2 * block, scaling)));
    if (32 * block + 16 < P.operand[operand].payload.width) {
      b.other = e4m3fn_value(load_u8(block_scale_address(operand, row.row, 2 * block + 1, scaling)));
    }
  }
  return b;
}

uint nibble_apart(uint64_t at, int e) {  // element j low, j + 16 high
  const uint pair = load_u8(at + uint64_t(e & 15));
  return e < 16 ? pair & 0xFu : pair >> 4;
}
// Which nibble an element of kInt4Words is, and the reverse.
int place_in_word(int e) { return (e & ~7) + (e & 1) * 4 + (e >> 1 & 3); }
int element_in_word(int place) { return (place & ~7) + (place & 3) * 2 + (place >> 2 & 1); }
uint nibble_pair(uint64_t at, int e) {  // earlier element low
  const uint pair = load_u8(at + uint64_t(e >> 1));
  return (e & 1) == 0 ? pair & 0xFu : pair >> 4;
}

// The number that the code of element e stands for, before f32, e8m0 and e4m3fn scales.
float code_value(Block b, int e, int element) {
  if (element == kF32) return load_f32(b.at + uint64_t(4 * e));
  if (element == kTf32) return uintBitsToFloat(load_u32(b.at + uint64_t(4 * e)) & ~0x1FFFu);
  if (element == kInt32) return narrow(double(load_i32(b.at + uint64_t(4 * e))));
  if (element == kF16) return f16_value(load_u16(b.at + uint64_t(2 * e)));
  if (element == kBf16) return bf16_value(load_u16(b.at + uint64_t(2 * e)));
  if (element == kE2m1) return e2m1_value(nibble_pair(b.at, e));
  if (element == kInt4) return float(int(nibble_pair(b.at, e) ^ 8u) - 8);
  if (element == kInt4Words) return float(int(nibble_pair(b.at, place_in_word(e)) ^ 8u) - 8);
  if (element == kQ8_0) return float(load_i8(b.at + uint64_t(2 + e)));
  if (element == kQ4_0) return float(int(nibble_apart(b.at + 2, e)) - 8);
  if (element == kQ4_1) return float(nibble_apart(b.at + 4, e));
  if (element == kQ5_0) return float(int(nibble_apart(b.at + 6, e) | (b.bits.x >> e & 1u) << 4) - 16);
  if (element == kQ5_1) return float(nibble_apart(b.at + 8, e) | (b.bits.x >> e & 1u) << 4);
  if (element == kIq4Nl) return kIq4NlValues[nibble_apart(b.at + 2, e)];
  const uint code = load_u8(b.at + uint64_t(e));
  if (element == kE4m3fn) return e4m3fn_value(code);
  if (element == kE4m3fnuz) return e4m3fnuz_value(code);
  if (element == kE5m2) return e5m2_value(code);
  if (element == kE5m2fnuz) return e5m2fnuz_value(code);
  if (element == kE3m2) return small_value(code, 3, 2, 3);
  if (element == kE2m3) return small_value(code, 2, 3, 1);
  if (element == kE8m0) return e8m0_value(code);
  if (element == kUe4m3) return e4m3fn_value(code & 0x7Fu);
  if (element == kUint8) return float(code);
  return float(int(code << 24) >> 24);  // kInt8
}

float tq3_value(Block b, int e, int element) {
  const uint row = hadamard_row(e);
  const uint positive = b.bits.y;
  const uint outer = ~(b.bits.x ^ b.bits.y);  // index 0 and 3: the outer cell
  const uint negative = row ^ ~positive;
  double sum = kTq3Centroid[0] * double(signed_count(~outer, negative)) +
               kTq3Centroid[1] * double(signed_count(outer, negative));
  if (element == kTq3C2s1) {
    const uint below = row ^ ~b.bits.z;
    sum += kTq3Spread[0] * double(signed_count(~outer, below)) + kTq3Spread[1] * double(signed_count(outer, below));
  }
  const double x = sum * double(b.scale) * 0.17677669529663688110lf;  // 1 / sqrt(32)
  return narrow((kTq3Signs >> e & 1u) != 0u ? -x : x);
}

// Element e of a block, decoded; one rounding to f32. exact: by bit code, subnormals included; otherwise a
// subnormal may be flushed.
float block_value(Block b, int e, int element, int scaling, bool exact) {
  if (element == kTq3C2s1 || element == kTq3C2) return tq3_value(b, e, element);
  if (element == kMxfp4Ggml) {
    // Its exponent 255 is no NaN: 2^128. Doubled values, half the scale.
    const uint code = load_u8(b.at);
    const float doubled = 2.0 * e2m1_value(nibble_apart(b.at + 1, e));
    if (exact) return narrow(double(doubled) * power_of_two(int(code) - 128));
    return doubled * uintBitsToFloat(code <= 1u ? 0x00200000u << code : (code - 1u) << 23);
  }
  const float code = code_value(b, e, element);
  if (element == kQ4_1 || element == kQ5_1) {
    return exact ? add_exact(b.scale * code, b.other) : b.scale * code + b.other;  // the product is exact
  }
  if (element >= kQ8_0 && element <= kIq4Nl) return b.scale * code;  // exact
  if (scaling == kUnscaled) return code;
  if (scaling == kNv || scaling == kNvSwizzled) {
    return div_exact(code * (e < 16 ? b.scale : b.other), b.global_scale);  // the product is exact
  }
  if (scaling == kPerRowTwice || scaling == kPerGroup32Twice) {  // a code and two scales have 51 bits: one rounding
    return narrow(double(code) * (widen(b.scale) * widen(b.global_scale)));
  }
  const float scale = scaling == kPerChannel ? load_f32(b.scales + uint64_t(4 * e)) : b.scale;
  return exact || scaling == kMx ? mul_exact(code, scale) : code * scale;
}

float row_value(int operand, Row row, int column, int element, int scaling, bool exact) {
  return block_value(open_block(operand, row, column >> 5, element, scaling), column & 31, element, scaling, exact);
}

// ---- f32 to 16-bit codes, nearest even, overflow to Inf

uint f16_code(float x) {
  const uint bits = floatBitsToUint(x);
  const uint sign = bits >> 16 & 0x8000u;
  const uint m = bits & 0x7FFFFFFFu;
  if (m > 0x7F800000u) return sign | 0x7E00u;
  if (m >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and above
  if (m < 0x38800000u) {                        // below 2^-14: steps of 2^-24
    const int shift = 126 - int(m >> 23);       // of a significand of 24 bits
    if (shift > 24) return sign;
    const uint significand = (m & 0x7FFFFFu) | 0x800000u;
    const uint rest = significand & ((1u << shift) - 1u);
    uint code = significand >> shift;
    if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (code & 1u) != 0u)) ++code;
    return sign | code;
  }
  const uint rounded = m + 0xFFFu + (m >> 13 & 1u);
  return sign | (rounded - 0x38000000u) >> 13;
}
uint bf16_code(float x) {
  const uint bits = floatBitsToUint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

// Stores a result in dtype f32, f16 or bf16.
void store_result(uint64_t row, int column, float x, int dtype) {
  if (dtype == kF32) store_f32(row + uint64_t(4 * column), x);
  else store_u16(row + uint64_t(2 * column), dtype == kF16 ? f16_code(x) : bf16_code(x));
}
float round_to_dtype(float x, int dtype) {
  if (dtype == kF16) return f16_value(f16_code(x));
  if (dtype == kBf16) return bf16_value(bf16_code(x));
  return x;
}
