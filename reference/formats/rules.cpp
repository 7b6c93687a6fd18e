// How a kernel is to quantise to each format, in a line: the head of blocks/<name>.cpp has the bytes and the
// cases at the ends.
#include <iterator>

#include "reference/formats/format.hpp"

namespace assay {
namespace {

struct Rule {
  std::string_view format, rule;
};

constexpr std::string_view kOffset8 =
    "d = the signed element of largest magnitude / -8, code = min(15, trunc(x (1 / d) + 8.5)) from d in f32; "
    "d stored as f16";
constexpr std::string_view kOffset16 =
    "d = the signed element of largest magnitude / -16, code = min(31, trunc(x (1 / d) + 16.5)) from d in "
    "f32; d stored as f16";
constexpr std::string_view kMicroscaling =
    "scale 2^e, e by mx_scale (floor: floor(log2(absmax)) - emax, emax that of the largest element; ceil: "
    "ceil(log2(absmax)) - emax; even: floor, of absmax rounded to the element's bits of fraction, halves up; "
    "rceil: ceil(log2(absmax / largest element in f32))); code of "
    "x / 2^e, to nearest even, "
    "saturating; a block of zeros: scale code 0";
constexpr std::string_view kNvfp4 =
    "global g = 2688 / absmax of the tensor (1 where that is 0), stored as it is; block scale s = "
    "e4m3fn(absmax of 16 elements g / 6), "
    "to nearest even, saturating; code = e2m1(x g / s), 0 where s is 0; number = code s / g";
constexpr std::string_view kInt4Bf16 =
    "scale = bf16 of absmax / 7 of 32 elements, to nearest even (1 where that is 0); code of x / scale, to "
    "nearest even, "
    "within -7..7";
constexpr std::string_view kTwoScales =
    "scale_2 = absmax of the tensor / 448, e = e4m3fn of x / scale_2, saturating; scale = absmax of the e of "
    "a row, or of "
    "32, / 7 (either 1 where that is 0); code of e / scale; both as `scale`, `code`, `quotient`, "
    "`subnormals` and `round` say";
constexpr std::string_view kTq3 =
    "y = H D x / sqrt(32); index = cell of y / sqrt(mean y^2), sign = that of what the centroid leaves; d = "
    "|y| / |levels|, stored as f16";

constexpr std::string_view kSearched =
    "a search over each group's scale s, begun at the signed element of largest magnitude / the code of "
    "largest "
    "magnitude, that makes sum x^2 (x - s code)^2 no greater and s no more than twice as large; d = largest "
    "|s| of the block / the largest "
    "integer scale, "
    "as f16; s / d to nearest; codes to nearest, under the stored scales";

constexpr Rule kRules[] = {
    {"q8_0",
     "d = absmax / 127, code = x (1 / d) to nearest, halves away from zero, from d in f32; d stored as f16"},
    {"q8_1", "as q8_0, and s = d times the sum of the codes, d in f32, stored as f16"},
    {"q4_0", kOffset8},
    {"q5_0", kOffset16},
    {"q4_1",
     "m = least element, d = (largest - m) / 15, code = min(15, trunc((x - m) (1 / d) + 0.5)) in f32; both "
     "stored as f16"},
    {"q5_1",
     "m = least element, d = (largest - m) / 31, code = min(31, trunc((x - m) (1 / d) + 0.5)) in f32; both "
     "stored as f16"},
    {"iq4_nl",
     "d0 = the signed element of largest magnitude / -127, code of the entry c nearest to x / d0; d = sum "
     "x^3 c / sum x^2 c^2, 0 where the latter is, as f16"},
    {"q3_K", kSearched},
    {"q6_K", kSearched},
    {"iq4_xs", kSearched},
    {"mxfp4", kMicroscaling},
    {"mxfp8", kMicroscaling},
    {"mxfp8_e5m2", kMicroscaling},
    {"mxfp4_ggml",
     "2^e, e = floor(log2(absmax)) - 2, exact or of the logarithm in f32; code of the nearest number, halves "
     "to "
     "the smaller magnitude"},
    {"nvfp4", kNvfp4},
    {"nvfp4_swizzled", kNvfp4},
    {"int4_g32_bf16", kInt4Bf16},
    {"int4_g32_packed", kInt4Bf16},
    {"int4_ch_tensor", kTwoScales},
    {"int4_g32_tensor", kTwoScales},
    {"tq3_0_c2s1", kTq3},
    {"tq3_0_c2", kTq3},
};

}  // namespace

std::string_view quantiser_rule(const Format& format) {
  switch (format.kind) {
    case FormatKind::scalar:
      return "x, rounded once, as `round` and `overflow` say";
    case FormatKind::scaled:
      return "scale = absmax of its group / D, as `scale` says (1 where that quotient is 0); code of x / "
             "scale, as "
             "`code` and `round` say";
    case FormatKind::block:
      break;
  }
  for (const Rule& r : kRules)
    if (r.format == format.name) return r.rule;
  return {};
}

}  // namespace assay
