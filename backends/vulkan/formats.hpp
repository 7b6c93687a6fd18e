// The one list of formats that these kernels read and write. A format is an element and a scaling; the
// shaders know both by number (shaders/formats.glsl has the counterparts of the enums).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/plugin/call.hpp"

namespace assay_vulkan {

enum Element : std::uint32_t {
  kF32,
  kF16,
  kBf16,
  kTf32,
  kE4m3fn,
  kE4m3fnuz,
  kE5m2,
  kE5m2fnuz,
  kE3m2,
  kE2m3,
  kE2m1,
  kE8m0,
  kUe4m3,
  kUint8,
  kInt8,
  kInt4,
  kInt32,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIq4Nl,
  kMxfp4Ggml,
  kTq3C2s1,
  kTq3C2,
  kInt4Words,       // eight to a word: from its lowest bits on the elements 0 2 4 6 1 3 5 7
  kTq3C2s1Rotated,  // read without the inverse transform
  kTq3C2Rotated,
};
enum Scaling : std::uint32_t {
  kUnscaled,
  kPerTensor,
  kPerHead,
  kPerToken,
  kPerChannel,
  kPerRow,
  kPerGroup32,
  kMx,
  kNv,
  kNvSwizzled,
  kPerRowTwice,      // one f32 scale of a row, one of the tensor
  kPerGroup32Twice,  // one f32 scale of 32 neighbours, one of the tensor
  kPerGroup32Bf16,
};

struct Format {
  std::string_view name;
  Element element;
  Scaling scaling;
  int block_elements;     // that a row must be a multiple of
  float scale_divisor;    // scale = absmax / this; 0 for formats without f32 scales per group
  int word_elements = 1;  // of an element of the payload's tensor: 8 where it is int32 with eight codes

  bool f32_scaled() const { return scaling >= kPerTensor && scaling <= kPerGroup32; }
  bool nv() const { return scaling == kNv || scaling == kNvSwizzled; }
  bool two_scales() const { return scaling == kPerRowTwice || scaling == kPerGroup32Twice; }
  // One f32 scale, or two, serve a whole row of a matrix.
  bool row_scaled() const {
    return scaling == kPerTensor || scaling == kPerToken || scaling == kPerRow || scaling == kPerRowTwice;
  }
};

std::span<const Format> formats();
const Format* find_format(std::string_view name);
const Format& format(std::string_view name);  // throws Unsupported
std::int64_t row_bytes(std::string_view format, std::int64_t length);

// Throws Unsupported unless f32, f16 or bf16.
void check_dtype(std::string_view name);
Element dtype_of(const assay_plugin::Call& call);  // of attribute dtype
// Throws Unsupported unless the format is known, its planes are there and rows are whole blocks.
void check_readable(const assay_plugin::Call& call, std::string_view tensor, std::string_view format);
void check_writable(const assay_plugin::Call& call, std::string_view tensor, std::string_view format);

}  // namespace assay_vulkan
