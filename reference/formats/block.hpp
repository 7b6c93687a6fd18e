// What a block format offers to format.cpp: its planes, its quantiser, its decoder. One constant per file of
// blocks/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/formats/factors.hpp"
#include "reference/formats/format.hpp"

namespace assay {

// How files of a format are searched for whose blocks hold an integer scale for each group:
// reference/ops/admissible_searched.cpp judges by it.
struct ScaleSearch {
  int group;      // elements that share a scale
  int top_scale;  // scales are integers from -top_scale - 1 to top_scale
  int far_code;   // the code of largest magnitude, which the signed extreme of a group has to begin with
  int top_code;   // integers from far_code to this, or those of
  std::span<const float> entries = {};
};

struct BlockCodec {
  std::vector<PlaneSpec> (*planes)(const Shape& shape);  // the innermost axis is a multiple of block_elements
  void (*encode)(std::span<const float> values, const EncodePolicy& policy,
                 Encoded& into);  // planes are allocated
  void (*decode)(const Encoded& tensor, std::int64_t first, std::span<double> out);
  void (*decode_f32)(const Encoded& tensor, std::int64_t first, std::span<float> out);
  bool searched = false;  // files come from a search that differs between versions
  const ScaleSearch* search =
      nullptr;  // what all of them keep to; nullptr where no op asks a kernel for codes
  // Of elements that are already initialised to Factors{}; nullptr: a number counts as its own code.
  void (*factors)(const Encoded& tensor, std::int64_t first, std::span<Factors> out) = nullptr;
  // Its bytes, for people: each plane or range of bytes of a block, the order of codes in a byte, and the
  // number that they stand for.
  std::string_view stored = {};
};

namespace blocks {
constexpr BlockCodec described(std::string_view stored, BlockCodec codec) {
  codec.stored = stored.substr(stored.find_first_not_of('\n'));
  return codec;
}
// Of a format with planes(), encode(), decoded<Real>() and factors().
template <typename Format>
constexpr BlockCodec codec_of() {
  return {.planes = Format::planes,
          .encode = Format::encode,
          .decode = Format::template decoded<double>,
          .decode_f32 = Format::template decoded<float>,
          .factors = Format::factors};
}
}  // namespace blocks

// The constants of blocks/*.cpp; formats.cpp has one row for each.
extern const BlockCodec q8_0_codec;
extern const BlockCodec q4_0_codec;
extern const BlockCodec q4_1_codec;
extern const BlockCodec q5_0_codec;
extern const BlockCodec q5_1_codec;
extern const BlockCodec iq4_nl_codec;
extern const BlockCodec q8_1_codec;
extern const BlockCodec q2_K_codec;
extern const BlockCodec q3_K_codec;
extern const BlockCodec q4_K_codec;
extern const BlockCodec q5_K_codec;
extern const BlockCodec q6_K_codec;
extern const BlockCodec iq4_xs_codec;
extern const BlockCodec tq3_0_c2s1_codec;
extern const BlockCodec tq3_0_c2_codec;
extern const BlockCodec mxfp4_codec;
extern const BlockCodec mxfp4_ggml_codec;
extern const BlockCodec mxfp8_codec;
extern const BlockCodec mxfp8_e5m2_codec;
extern const BlockCodec nvfp4_codec;
extern const BlockCodec nvfp4_swizzled_codec;
extern const BlockCodec int4_g32_bf16_codec;
extern const BlockCodec int4_g32_packed_codec;
extern const BlockCodec int4_ch_tensor_codec;
extern const BlockCodec int4_g32_tensor_codec;

// Throws bad_value for a format that is searched, and of whose search nothing is known: attribute "to" of op
// `op`.
void check_quantiser(const Format& to, std::string_view op);

// Planes that several files share.
Shape grouped(Shape shape, int group);  // the last axis divided by group
PlaneSpec scalar_plane(std::string suffix, std::string_view scalar, Shape shape);
const Plane& plane_of(const Encoded& tensor, std::string_view suffix);  // throws shape_mismatch when absent
Plane& plane_of(Encoded& tensor, std::string_view suffix);
float checked_scale(float scale, std::string_view plane, std::int64_t index);  // throws bad_scale

}  // namespace assay
