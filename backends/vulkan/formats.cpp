#include "backends/vulkan/formats.hpp"

#include <array>
#include <string>

namespace assay_vulkan {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

#define ASSAY_SCALED(text, element, divisor)                                                           \
  {text "_tensor", element, kPerTensor, 1, divisor}, {text "_head", element, kPerHead, 1, divisor},    \
      {text "_tok", element, kPerToken, 1, divisor}, {text "_ch", element, kPerChannel, 1, divisor}, { \
    text "_row", element, kPerRow, 1, divisor                                                          \
  }
#define ASSAY_BLOCK(text, element) {text, element, kUnscaled, 32, 0}

constexpr auto kFormats = std::to_array<Format>({
    {"f32", kF32, kUnscaled, 1, 0},
    {"f16", kF16, kUnscaled, 1, 0},
    {"bf16", kBf16, kUnscaled, 1, 0},
    {"tf32", kTf32, kUnscaled, 1, 0},
    {"e4m3fn", kE4m3fn, kUnscaled, 1, 0},
    {"e4m3fnuz", kE4m3fnuz, kUnscaled, 1, 0},
    {"e5m2", kE5m2, kUnscaled, 1, 0},
    {"e5m2fnuz", kE5m2fnuz, kUnscaled, 1, 0},
    {"e3m2", kE3m2, kUnscaled, 1, 0},
    {"e2m3", kE2m3, kUnscaled, 1, 0},
    {"e2m1", kE2m1, kUnscaled, 2, 0},
    {"e8m0", kE8m0, kUnscaled, 1, 0},
    {"ue4m3", kUe4m3, kUnscaled, 1, 0},
    {"uint8", kUint8, kUnscaled, 1, 0},
    {"int8", kInt8, kUnscaled, 1, 0},
    {"int4", kInt4, kUnscaled, 2, 0},
    {"int32", kInt32, kUnscaled, 1, 0},
    ASSAY_SCALED("e4m3fn", kE4m3fn, 448),
    ASSAY_SCALED("e4m3fnuz", kE4m3fnuz, 240),
    ASSAY_SCALED("e5m2", kE5m2, 57344),
    ASSAY_SCALED("int8", kInt8, 127),
    {"int4_ch", kInt4, kPerRow, 2, 7},
    {"int4_g32", kInt4, kPerGroup32, 32, 7},
    {"int4_g32_bf16", kInt4, kPerGroup32Bf16, 32, 0},
    {"int4_g32_packed", kInt4Words, kPerGroup32Bf16, 32, 0, 8},
    {"int4_ch_tensor", kInt4, kPerRowTwice, 2, 7},
    {"int4_g32_tensor", kInt4, kPerGroup32Twice, 32, 7},
    ASSAY_BLOCK("q8_0", kQ8_0),
    ASSAY_BLOCK("q4_0", kQ4_0),
    ASSAY_BLOCK("q4_1", kQ4_1),
    ASSAY_BLOCK("q5_0", kQ5_0),
    ASSAY_BLOCK("q5_1", kQ5_1),
    ASSAY_BLOCK("iq4_nl", kIq4Nl),
    ASSAY_BLOCK("mxfp4_ggml", kMxfp4Ggml),
    ASSAY_BLOCK("tq3_0_c2s1", kTq3C2s1),
    ASSAY_BLOCK("tq3_0_c2", kTq3C2),
    {"mxfp4", kE2m1, kMx, 32, 0},
    {"mxfp8", kE4m3fn, kMx, 32, 0},
    {"mxfp8_e5m2", kE5m2, kMx, 32, 0},
    {"nvfp4", kE2m1, kNv, 16, 0},
    {"nvfp4_swizzled", kE2m1, kNvSwizzled, 16, 0},
});
#undef ASSAY_SCALED
#undef ASSAY_BLOCK

struct Storage {
  std::int64_t elements, bytes;
};
Storage storage(Element element) {
  switch (element) {
    case kF32:
    case kTf32:
    case kInt32:
      return {1, 4};
    case kF16:
    case kBf16:
      return {1, 2};
    case kE2m1:
    case kInt4:
    case kInt4Words:
      return {2, 1};
    case kQ8_0:
      return {32, 34};
    case kQ4_0:
    case kIq4Nl:
      return {32, 18};
    case kQ4_1:
      return {32, 20};
    case kQ5_0:
      return {32, 22};
    case kQ5_1:
      return {32, 24};
    case kMxfp4Ggml:
      return {32, 17};
    case kTq3C2s1:
    case kTq3C2:
      return {32, 14};
    default:
      return {1, 1};
  }
}

void check_planes(const Call& call, std::string_view tensor, const Format& row, bool output) {
  const auto need = [&](bool wanted, const char* suffix) {
    const std::string name = std::string(tensor) + suffix;
    const assay_tensor* plane = output ? call.find_output(name) : call.find_input(name);
    if (wanted && plane == nullptr) {
      throw Unsupported("tensor '" + name + "' of format " + std::string(row.name) + " is missing");
    }
    return plane;
  };
  const assay_tensor* payload = need(true, "");
  const bool own_scales = row.scaling == kMx || row.scaling == kPerGroup32Bf16;
  need(row.f32_scaled() || row.two_scales() || own_scales, ".scale");
  need(row.two_scales(), ".scale_2");
  need(row.nv(), ".block_scale");
  need(row.nv(), ".global_scale");
  const std::int64_t length = assay_plugin::row_length(*payload) * row.word_elements;
  if (length % row.block_elements != 0) {
    throw Unsupported("rows of " + std::to_string(length) + " elements are not whole blocks of " +
                      std::string(row.name));
  }
  if (assay_plugin::element_count(*payload) > INT32_MAX / row.word_elements) {
    throw Unsupported("tensor '" + std::string(tensor) + "' has more than 2^31 - 1 elements");
  }
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(std::string_view name) {
  for (const Format& row : kFormats) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const Format& format(std::string_view name) {
  if (const Format* row = find_format(name)) return *row;
  throw Unsupported("format " + std::string(name) + " has no row in the vulkan backend's list");
}

std::int64_t row_bytes(std::string_view name, std::int64_t length) {
  const Storage unit = storage(format(name).element);
  return (length + unit.elements - 1) / unit.elements * unit.bytes;
}

void check_dtype(std::string_view name) {
  if (name != "f32" && name != "f16" && name != "bf16") {
    throw Unsupported("dtype " + std::string(name) + ": these kernels write f32, f16 and bf16");
  }
}

Element dtype_of(const Call& call) { return format(call.text("dtype")).element; }

void check_readable(const Call& call, std::string_view tensor, std::string_view name) {
  check_planes(call, tensor, format(name), false);
}
void check_writable(const Call& call, std::string_view tensor, std::string_view name) {
  if (format(name).two_scales())
    throw Unsupported(std::string(name) +
                      " is made before a model is shipped: these kernels read it and do not write it");
  check_planes(call, tensor, format(name), true);
}

}  // namespace assay_vulkan
