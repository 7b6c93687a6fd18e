// The one list of formats. A new scalar format is a row of scalar.cpp; a new block format is a file of
// blocks/ and a row here; a new scaled format is a row here.
#include <fmt/format.h>

#include <iterator>
#include <unordered_map>
#include <vector>

#include "reference/error.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

using enum FormatKind;

constexpr double kRounded = 0x1p-53;                // decode is the nearest f64 of the real value
constexpr double kTq3 = 0x1p-53 * (1.0 + 0x1p-40);  // nearest but for ties closer than 2^-40 of an ulp

constexpr std::string_view kTwo = "int4 * .scale * .scale_2";

std::vector<Format> rows() {
  std::vector<Format> list;
  for (const ScalarFormat& s : scalar_formats()) {
    const double stored = s.storage_bytes == 0 ? 4 : 8 * s.storage_bytes;
    list.push_back({s.name, scalar, stored, s.storage_bytes == 0 ? 2 : 1, 0, s.note, s.name});
  }
  const Format others[] = {
      // name, kind, bits per element, block, decode error, note, element, scale axis, divisor, codec
      {"q8_0", block, 8.5, 32, 0, "ggml: f16 scale, 32 x int8", {}, {}, 0, &q8_0_codec},
      {"q4_0", block, 4.5, 32, 0, "ggml: f16 scale, offset 8", {}, {}, 0, &q4_0_codec},
      {"q4_1", block, 5, 32, 0, "ggml: f16 scale and minimum", {}, {}, 0, &q4_1_codec},
      {"q5_0", block, 5.5, 32, 0, "ggml: f16 scale, offset 16", {}, {}, 0, &q5_0_codec},
      {"q5_1", block, 6, 32, 0, "ggml: f16 scale and minimum", {}, {}, 0, &q5_1_codec},
      {"iq4_nl", block, 4.5, 32, 0, "ggml: f16 scale, 16-entry codebook", {}, {}, 0, &iq4_nl_codec},
      {"q8_1", block, 9, 32, 0, "ggml: f16 scale, f16 sum, 32 x int8", {}, {}, 0, &q8_1_codec},
      {"q2_K", block, 2.625, 256, kRounded, "ggml: 16 groups, scale and minimum", {}, {}, 0, &q2_K_codec},
      {"q3_K", block, 3.4375, 256, 0, "ggml: 16 groups, scales of 6 bits", {}, {}, 0, &q3_K_codec},
      {"q4_K", block, 4.5, 256, kRounded, "ggml: 8 groups, scale and minimum", {}, {}, 0, &q4_K_codec},
      {"q5_K", block, 5.5, 256, kRounded, "ggml: 8 groups, scale and minimum", {}, {}, 0, &q5_K_codec},
      {"q6_K", block, 6.5625, 256, 0, "ggml: 16 groups, int8 scales", {}, {}, 0, &q6_K_codec},
      {"iq4_xs", block, 4.25, 256, 0, "ggml: 8 groups, the codebook of iq4_nl", {}, {}, 0, &iq4_xs_codec},
      {"tq3_0_c2s1", block, 3.5, 32, kTq3, "rotated; 2-bit codes, signs", {}, {}, 0, &tq3_0_c2s1_codec},
      {"tq3_0_c2", block, 3.5, 32, kTq3, "the same, signs unused", {}, {}, 0, &tq3_0_c2_codec},
      {"mxfp4", block, 4.25, 32, 0, "OCP MX: e2m1, .scale e8m0", {}, {}, 0, &mxfp4_codec},
      {"mxfp4_ggml", block, 4.25, 32, 0, "ggml: e8m0, then nibbles", {}, {}, 0, &mxfp4_ggml_codec},
      {"mxfp8", block, 8.25, 32, 0, "OCP MX: e4m3fn, .scale e8m0", {}, {}, 0, &mxfp8_codec},
      {"mxfp8_e5m2", block, 8.25, 32, 0, "OCP MX: e5m2, .scale e8m0", {}, {}, 0, &mxfp8_e5m2_codec},
      {"nvfp4", block, 4.5, 16, kRounded, "e2m1 * block / global", {}, {}, 0, &nvfp4_codec},
      {"nvfp4_swizzled", block, 4.5, 16, kRounded, "scales in 128x4 order", {}, {}, 0, &nvfp4_swizzled_codec},
      {"int4_g32_bf16", block, 4.5, 32, 0, "int4, .scale bf16", {}, {}, 0, &int4_g32_bf16_codec},
      {"int4_g32_packed", block, 4.5, 32, 0, "reordered words of 8", {}, {}, 0, &int4_g32_packed_codec},
      {"int4_ch_tensor", block, 4, 2, 0, kTwo, "int4", ScaleAxis::row, 7, &int4_ch_tensor_codec},
      {"int4_g32_tensor", block, 5, 32, 0, kTwo, {}, {}, 0, &int4_g32_tensor_codec},
      {"e4m3fn_tensor", scaled, 8, 1, 0, "one scale", "e4m3fn", ScaleAxis::tensor, 448},
      {"e4m3fn_head", scaled, 8, 1, 0, "a scale per middle index", "e4m3fn", ScaleAxis::head, 448},
      {"e4m3fn_tok", scaled, 8, 1, 0, "a scale per outer index", "e4m3fn", ScaleAxis::token, 448},
      {"e4m3fn_ch", scaled, 8, 1, 0, "a scale per (middle, inner)", "e4m3fn", ScaleAxis::channel, 448},
      {"e4m3fn_row", scaled, 8, 1, 0, "a scale per (outer, middle)", "e4m3fn", ScaleAxis::row, 448},
      {"e4m3fnuz_tensor", scaled, 8, 1, 0, "one scale", "e4m3fnuz", ScaleAxis::tensor, 240},
      {"e4m3fnuz_head", scaled, 8, 1, 0, "a scale per middle index", "e4m3fnuz", ScaleAxis::head, 240},
      {"e4m3fnuz_tok", scaled, 8, 1, 0, "a scale per outer index", "e4m3fnuz", ScaleAxis::token, 240},
      {"e4m3fnuz_ch", scaled, 8, 1, 0, "a scale per (middle, inner)", "e4m3fnuz", ScaleAxis::channel, 240},
      {"e4m3fnuz_row", scaled, 8, 1, 0, "a scale per (outer, middle)", "e4m3fnuz", ScaleAxis::row, 240},
      {"e5m2_tensor", scaled, 8, 1, 0, "one scale", "e5m2", ScaleAxis::tensor, 57344},
      {"e5m2_head", scaled, 8, 1, 0, "a scale per middle index", "e5m2", ScaleAxis::head, 57344},
      {"e5m2_tok", scaled, 8, 1, 0, "a scale per outer index", "e5m2", ScaleAxis::token, 57344},
      {"e5m2_ch", scaled, 8, 1, 0, "a scale per (middle, inner)", "e5m2", ScaleAxis::channel, 57344},
      {"e5m2_row", scaled, 8, 1, 0, "a scale per (outer, middle)", "e5m2", ScaleAxis::row, 57344},
      {"int8_tensor", scaled, 8, 1, 0, "one scale", "int8", ScaleAxis::tensor, 127},
      {"int8_head", scaled, 8, 1, 0, "a scale per middle index", "int8", ScaleAxis::head, 127},
      {"int8_tok", scaled, 8, 1, 0, "a scale per outer index", "int8", ScaleAxis::token, 127},
      {"int8_ch", scaled, 8, 1, 0, "a scale per (middle, inner)", "int8", ScaleAxis::channel, 127},
      {"int8_row", scaled, 8, 1, 0, "a scale per (outer, middle)", "int8", ScaleAxis::row, 127},
      {"int4_ch", scaled, 4, 2, 0, "symmetric, a scale per output channel", "int4", ScaleAxis::row, 7},
      {"int4_g32", scaled, 5, 32, 0, "symmetric, a scale per 32", "int4", ScaleAxis::group32, 7},
  };
  list.insert(list.end(), std::begin(others), std::end(others));
  return list;
}

}  // namespace

void check_quantiser(const Format& to, std::string_view op) {
  if (to.block != nullptr && to.block->searched && to.block->search == nullptr)
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format(
            "{}: to={}: its files come from a search over scales and minima, of which nothing is known; it "
            "can be read: dequantize from={}",
            op, to.name, to.name));
}

std::span<const Format> formats() {
  static const std::vector<Format> list = rows();
  return list;
}

const Format* find_format(std::string_view name) {
  // Looked up once per decode_range, so by hash.
  static const std::unordered_map<std::string_view, const Format*> index = [] {
    std::unordered_map<std::string_view, const Format*> map;
    for (const Format& row : formats()) map.emplace(row.name, &row);
    return map;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const Format& format(std::string_view name) {
  if (const Format* row = find_format(name)) return *row;
  throw unknown_name("format", name, names_of(formats()));
}

}  // namespace assay
