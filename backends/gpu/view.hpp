// Tensors as kernels get them: plain data, passed by value. Offsets are in bytes and honour every stride. A
// row is everything along the last axis; rows are counted in row-major order of the other axes.
#pragma once

#include <cstdint>

#include "backends/assay_backend.h"

namespace assay_gpu {

struct View {
  unsigned char* data = nullptr;  // in device memory; as misaligned as the tensor is on the host
  std::int32_t rank = 0;
  std::int64_t shape[ASSAY_MAX_RANK] = {};
  std::int64_t stride[ASSAY_MAX_RANK] = {};
};

enum class Element : std::uint8_t {
  f32,
  f16,
  bf16,
  tf32,
  int8,
  uint8,
  int4,
  e4m3fn,
  e4m3fnuz,
  e5m2,
  e5m2fnuz,
  e3m2,
  e2m3,
  e2m1,
  e8m0,
  ue4m3
};

// What one f32 scale of the plane ".scale" (or ".global_scale") belongs to. Axes: [.., outer, middle, inner].
enum class Scaling : std::uint8_t {
  none,     // no f32 scale outside the payload
  tensor,   // the whole tensor
  head,     // a middle index
  token,    // an outer index
  channel,  // a (middle, inner) pair
  row,      // an (outer, middle) pair
  group32,  // 32 neighbours along inner
  global,   // nvfp4's ".global_scale": one for the tensor, and decoding divides by it
};

// How elements lie in the payload when it is no array of codes, or where their block scales are.
enum class Block : std::uint8_t {
  none,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,
  mxfp4_ggml,
  tq3_0_c2s1,
  tq3_0_c2,  // inline blocks of 32
  tq3_0_c2s1_rotated,
  tq3_0_c2_rotated,  // read without the inverse transform; not written
  mx,                // e8m0 ".scale" per 32
  nvfp4,             // e4m3fn ".block_scale" per 16
  nvfp4_swizzled,    // the same, in tiles of 128 rows x 4 columns
  int4_bf16,         // int4 codes with a bf16 ".scale" per 32
  int4_words         // the same, eight codes to a word: from its lowest bits on the elements 0 2 4 6 1 3 5 7
};

struct Format {
  Element element = Element::f32;  // of the codes; f32 for inline blocks
  Scaling scaling = Scaling::none;
  Block block = Block::none;
  std::uint8_t unit = 1;  // elements that are encoded together: 1, 2 (a byte of nibbles), 16 or 32
  float divisor = 0;      // scale = absmax / this; 0 without f32 scales
  bool second = false;    // a second f32 scale, one of the tensor: code * scale * scale_2
};

// The planes of one tensor. Companions have data == nullptr where the format has none.
struct Planes {
  Format format;
  View payload, scale, scale_2, block_scale, global_scale;
  std::int64_t rows = 0;
  std::int64_t length = 0;  // of a row, in elements
  std::int64_t middle = 1;  // size of the second to last axis; 1 for rank 2 and below
};

}  // namespace assay_gpu
