// Any format, element by element or unit by unit, on the device.
//   decode(planes, row, column)         the stored number as f32: code * scale, one rounding per product or
//                                       quotient
//   encode_unit(planes, row, first, x)  stores format.unit neighbours; f32 scales are those already in the
//                                       planes, scales of blocks are computed here
// Codes is who converts scalar codes: BitCodes here, or the vendor's toolkit (toolkit.cuh).
// What the format is, is a value that is the same for all threads: a branch that does not diverge.
#pragma once

#include "backends/gpu/blocks.cuh"
#include "backends/gpu/elements.cuh"
#include "backends/gpu/planes.cuh"

namespace assay_gpu {

struct BitCodes {
  GPU_BOTH static float decode(Element element, std::uint32_t code) { return decode_element(element, code); }
  GPU_BOTH static std::uint32_t encode(Element element, float x) { return encode_element(element, x); }
};

// Which f32 scale the element has.
GPU_BOTH std::int64_t scale_index(const Planes& p, std::int64_t row, std::int64_t column) {
  switch (p.format.scaling) {
    case Scaling::head:
      return row % p.middle;
    case Scaling::token:
      return row / p.middle;
    case Scaling::channel:
      return row % p.middle * p.length + column;
    case Scaling::row:
      return row;
    case Scaling::group32:
      return row * (p.length / 32) + column / 32;
    default:
      return 0;
  }
}

GPU_BOTH float f32_scale(const Planes& p, std::int64_t row, std::int64_t column) {
  return load_f32(p.scale, scale_index(p, row, column));
}

// Code times its f32 scales, rounded once: a code and two scales have 51 bits together.
GPU_BOTH float scaled_value(const Planes& p, std::int64_t row, std::int64_t column, float code) {
  const float scale = f32_scale(p, row, column);
  if (!p.format.second) return code * scale;
  return static_cast<float>(code * (static_cast<double>(scale) * load_f32(p.scale_2, 0)));
}

// Which nibble of its row an element of int4_words is.
GPU_BOTH std::int64_t place_in_word(std::int64_t column) {
  const std::int64_t in_word = column % 8;
  return column - in_word + in_word % 2 * 4 + in_word / 2;
}

// The stored code in the low bits; inline blocks have none.
GPU_BOTH std::uint32_t load_code(const Planes& p, std::int64_t row, std::int64_t column) {
  const unsigned char* at = p.payload.data + row_offset(p.payload, row);
  if (p.format.block == Block::int4_words) column = place_in_word(column);
  switch (element_bits(p.format.element)) {
    case 32:
      return *reinterpret_cast<const std::uint32_t*>(at + 4 * column);
    case 16:
      return *reinterpret_cast<const std::uint16_t*>(at + 2 * column);
    case 4:
      return static_cast<std::uint32_t>(at[column / 2]) >> (column % 2 * 4) & 0xFU;
    default:
      return at[column];
  }
}

GPU_BOTH std::uint8_t load_byte(const View& view, std::int64_t index) {
  return view.data[element_offset(view, index)];
}

// Where the block scale of the block at `column / 16` is, in the swizzled order: tiles of 128 rows x 4
// blocks, padded; the scale of (row, block) of a tile is byte row % 32 * 16 + row / 32 * 4 + block.
GPU_BOTH std::int64_t swizzled_index(const Planes& p, std::int64_t row, std::int64_t block) {
  const std::int64_t rows = p.payload.rank > 1 ? p.payload.shape[p.payload.rank - 2] : 1;
  const std::int64_t padded_rows = (rows + 127) / 128 * 128;
  const std::int64_t padded_blocks = (p.length / 16 + 3) / 4 * 4;
  const std::int64_t r = row % rows;
  const std::int64_t tile = r / 128 * (padded_blocks / 4) + block / 4;
  return row / rows * padded_rows * padded_blocks + tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + block % 4;
}
GPU_BOTH std::int64_t block_scale_index(const Planes& p, std::int64_t row, std::int64_t block) {
  return p.format.block == Block::nvfp4_swizzled ? swizzled_index(p, row, block)
                                                 : row * (p.length / 16) + block;
}

GPU_BOTH bool is_int4_group(Block block) { return block == Block::int4_bf16 || block == Block::int4_words; }
GPU_BOTH unsigned char* bf16_scale_at(const Planes& p, std::int64_t row, std::int64_t column) {
  return p.scale.data + row_offset(p.scale, row) + column / 32 * 2;
}
GPU_BOTH float bf16_scale(const Planes& p, std::int64_t row, std::int64_t column) {
  return decode_element(Element::bf16,
                        *reinterpret_cast<const std::uint16_t*>(bf16_scale_at(p, row, column)));
}

template <class Codes = BitCodes>
GPU_BOTH float decode(const Planes& p, std::int64_t row, std::int64_t column) {
  if (is_inline(p.format.block)) {
    const int bytes = inline_bytes(p.format.block);
    const unsigned char* block = p.payload.data + row_offset(p.payload, row) + column / 32 * bytes;
    return decode_inline(p.format.block, block, static_cast<int>(column % 32));
  }
  const float value = Codes::decode(p.format.element, load_code(p, row, column));
  if (p.format.block == Block::mx) {
    return value * decode_e8m0(p.scale.data[row_offset(p.scale, row) + column / 32]);
  }
  if (is_int4_group(p.format.block)) return value * bf16_scale(p, row, column);
  if (p.format.block != Block::none) {  // the product of code and block scale is exact
    const float scale =
        Codes::decode(Element::e4m3fn, load_byte(p.block_scale, block_scale_index(p, row, column / 16)));
    return value * scale / load_f32(p.global_scale, 0);
  }
  return p.format.scaling == Scaling::none ? value : scaled_value(p, row, column, value);
}

GPU_BOTH void store_code(const Planes& p, std::int64_t row, std::int64_t column, std::uint32_t code) {
  unsigned char* at = p.payload.data + row_offset(p.payload, row);
  switch (element_bits(p.format.element)) {
    case 32:
      *reinterpret_cast<std::uint32_t*>(at + 4 * column) = code;
      break;
    case 16:
      *reinterpret_cast<std::uint16_t*>(at + 2 * column) = static_cast<std::uint16_t>(code);
      break;
    case 4:  // the earlier element low; it comes first and clears the other half
      at[column / 2] =
          static_cast<unsigned char>(column % 2 == 0 ? code : (at[column / 2] & 0xFU) | code << 4);
      break;
    default:
      at[column] = static_cast<unsigned char>(code);
  }
}

struct Extremes {
  float absmax = 0;  // of the finite elements
  bool nan = false;
};
GPU_BOTH Extremes extremes(const float* x, int count) {
  Extremes e;
  for (int i = 0; i < count; ++i) {
    if (is_finite(x[i]) && magnitude(x[i]) > e.absmax) e.absmax = magnitude(x[i]);
    e.nan = e.nan || is_nan(x[i]);
  }
  return e;
}

// mx: scale = floor(log2 absmax) - floor(log2 largest code), held at 2^-127.
template <class Codes>
GPU_BOTH void encode_mx(const Planes& p, std::int64_t row, std::int64_t first, const float* x) {
  const SmallFloat f = small_float(p.format.element);
  const int top_exponent = static_cast<int>(f.largest >> f.fraction_bits) - f.bias;
  const Extremes e = extremes(x, 32);
  const bool poisoned = e.nan && f.top == Top::finite;
  int exponent = e.absmax > 0 ? exponent_of(e.absmax) - top_exponent : -127;
  if (exponent < -127) exponent = -127;
  p.scale.data[row_offset(p.scale, row) + first / 32] =
      static_cast<unsigned char>(poisoned ? 0xFF : exponent + 127);
  for (int i = 0; i < 32; ++i) {
    // 2^-exponent may be beyond f32.
    const double scaled = static_cast<double>(x[i]) * power_of_two(-exponent);
    store_code(p, row, first + i, poisoned ? 0 : Codes::encode(p.format.element, round_to_odd(scaled)));
  }
}

// int4 with a bf16 scale: bf16(absmax / 7), 1 for 0; codes of x / scale, in pairs, the earlier of a byte low.
GPU_BOTH void encode_int4_group(const Planes& p, std::int64_t row, std::int64_t first, const float* x) {
  std::uint32_t code = encode_element(Element::bf16, extremes(x, 32).absmax / 7.0F);
  float scale = decode_element(Element::bf16, code);
  if (scale == 0) {
    scale = 1;
    code = encode_element(Element::bf16, scale);
  }
  *reinterpret_cast<std::uint16_t*>(bf16_scale_at(p, row, first)) = static_cast<std::uint16_t>(code);
  unsigned char* at = p.payload.data + row_offset(p.payload, row) + first / 2;
  for (int byte = 0; byte < 16; ++byte) at[byte] = 0;
  for (int i = 0; i < 32; ++i) {
    const std::int64_t nibble = p.format.block == Block::int4_words ? place_in_word(i) : i;
    at[nibble / 2] |=
        static_cast<unsigned char>(encode_element(Element::int4, x[i] / scale) << (nibble % 2 * 4));
  }
}

template <class Codes>
GPU_BOTH void encode_nv(const Planes& p, std::int64_t row, std::int64_t first, const float* x) {
  const double global = load_f32(p.global_scale, 0);
  const Extremes e = extremes(x, 16);
  const double wanted = static_cast<double>(e.absmax) * global / 6;
  const std::uint32_t code = e.nan ? 0x7FU : Codes::encode(Element::e4m3fn, round_to_odd(wanted));
  const float scale = Codes::decode(Element::e4m3fn, code);
  p.block_scale.data[element_offset(p.block_scale, block_scale_index(p, row, first / 16))] =
      static_cast<unsigned char>(code);
  for (int i = 0; i < 16; ++i) {
    const double quotient = static_cast<double>(x[i]) * global / scale;
    store_code(p, row, first + i, scale > 0 ? Codes::encode(Element::e2m1, round_to_odd(quotient)) : 0);
  }
}

template <class Codes = BitCodes>
GPU_BOTH void encode_unit(const Planes& p, std::int64_t row, std::int64_t first, const float* x) {
  if (is_inline(p.format.block)) {
    const int bytes = inline_bytes(p.format.block);
    encode_inline(p.format.block, p.payload.data + row_offset(p.payload, row) + first / 32 * bytes, x);
  } else if (p.format.block == Block::mx) {
    encode_mx<Codes>(p, row, first, x);
  } else if (is_int4_group(p.format.block)) {
    encode_int4_group(p, row, first, x);
  } else if (p.format.block != Block::none) {
    encode_nv<Codes>(p, row, first, x);
  } else {
    for (int i = 0; i < p.format.unit; ++i) {
      const float quotient = p.format.scaling == Scaling::none ? x[i] : x[i] / f32_scale(p, row, first + i);
      store_code(p, row, first + i, Codes::encode(p.format.element, quotient));
    }
  }
}

}  // namespace assay_gpu
