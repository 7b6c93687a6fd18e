#include "backends/gpu/formats.hpp"

#include <array>
#include <string>

namespace assay_gpu {
namespace {

using assay_plugin::Call;
using assay_plugin::Unsupported;

constexpr FormatRow scalar(std::string_view name, Element element, int bits) {
  const int unit = bits == 4 ? 2 : 1;
  return {name,  {element, Scaling::none, Block::none, static_cast<std::uint8_t>(unit), 0},
          unit,  bits,
          0,     false,
          false, false};
}
constexpr FormatRow scaled(std::string_view name, Element element, Scaling scaling, float divisor) {
  const int bits = element == Element::int4 ? 4 : 8;
  const int unit = bits == 4 ? 2 : 1;
  return {name,
          {element, scaling, Block::none, static_cast<std::uint8_t>(unit), divisor},
          scaling == Scaling::group32 ? 32 : unit,
          bits,
          0,
          true,
          false,
          false};
}
// As loaders find it in a checkpoint: two f32 scales, that of a row or of 32 and that of the tensor.
constexpr FormatRow two_scales(std::string_view name, Scaling scaling) {
  FormatRow row = scaled(name, Element::int4, scaling, 7);
  row.format.second = row.has_second_scale = true;
  return row;
}
constexpr FormatRow int4_block(std::string_view name, Block block) {
  const int words = block == Block::int4_words ? 8 : 1;
  return {name, {Element::int4, Scaling::none, block, 32, 0}, 32, 4, 0, true, false, false, false, words};
}
constexpr FormatRow inline_block(std::string_view name, Block block, int bytes) {
  return {name, {Element::f32, Scaling::none, block, 32, 0}, 32, 0, bytes, false, false, false};
}
constexpr FormatRow mx(std::string_view name, Element element, int bits) {
  return {name, {element, Scaling::none, Block::mx, 32, 0}, 32, bits, 0, true, false, false};
}
constexpr FormatRow nv(std::string_view name, Block block) {
  return {name, {Element::e2m1, Scaling::global, block, 16, 0}, 16, 4, 0, false, true, true};
}

constexpr auto kFormats = std::to_array<FormatRow>({
    scalar("f32", Element::f32, 32),
    scalar("f16", Element::f16, 16),
    scalar("bf16", Element::bf16, 16),
    scalar("tf32", Element::tf32, 32),
    scalar("int8", Element::int8, 8),
    scalar("uint8", Element::uint8, 8),
    scalar("int4", Element::int4, 4),
    scalar("e4m3fn", Element::e4m3fn, 8),
    scalar("e4m3fnuz", Element::e4m3fnuz, 8),
    scalar("e5m2", Element::e5m2, 8),
    scalar("e5m2fnuz", Element::e5m2fnuz, 8),
    scalar("e3m2", Element::e3m2, 8),
    scalar("e2m3", Element::e2m3, 8),
    scalar("e2m1", Element::e2m1, 4),
    scalar("e8m0", Element::e8m0, 8),
    scalar("ue4m3", Element::ue4m3, 8),
#define ASSAY_SCALED(element, divisor)                                     \
  scaled(#element "_tensor", Element::element, Scaling::tensor, divisor),  \
      scaled(#element "_head", Element::element, Scaling::head, divisor),  \
      scaled(#element "_tok", Element::element, Scaling::token, divisor),  \
      scaled(#element "_ch", Element::element, Scaling::channel, divisor), \
      scaled(#element "_row", Element::element, Scaling::row, divisor)
    ASSAY_SCALED(e4m3fn, 448),
    ASSAY_SCALED(e4m3fnuz, 240),
    ASSAY_SCALED(e5m2, 57344),
    ASSAY_SCALED(int8, 127),
#undef ASSAY_SCALED
    scaled("int4_ch", Element::int4, Scaling::row, 7),
    scaled("int4_g32", Element::int4, Scaling::group32, 7),
    int4_block("int4_g32_bf16", Block::int4_bf16),
    int4_block("int4_g32_packed", Block::int4_words),
    two_scales("int4_ch_tensor", Scaling::row),
    two_scales("int4_g32_tensor", Scaling::group32),
    inline_block("q8_0", Block::q8_0, 34),
    inline_block("q4_0", Block::q4_0, 18),
    inline_block("q4_1", Block::q4_1, 20),
    inline_block("q5_0", Block::q5_0, 22),
    inline_block("q5_1", Block::q5_1, 24),
    inline_block("iq4_nl", Block::iq4_nl, 18),
    inline_block("mxfp4_ggml", Block::mxfp4_ggml, 17),
    inline_block("tq3_0_c2s1", Block::tq3_0_c2s1, 14),
    inline_block("tq3_0_c2", Block::tq3_0_c2, 14),
    mx("mxfp4", Element::e2m1, 4),
    mx("mxfp8", Element::e4m3fn, 8),
    mx("mxfp8_e5m2", Element::e5m2, 8),
    nv("nvfp4", Block::nvfp4),
    nv("nvfp4_swizzled", Block::nvfp4_swizzled),
});

void check_planes(const Call& call, std::string_view tensor, std::string_view format, bool output) {
  const FormatRow& row = format_row(format);
  const auto need = [&](bool wanted, const char* suffix) {
    const std::string name = std::string(tensor) + suffix;
    if (wanted && (output ? call.find_output(name) : call.find_input(name)) == nullptr)
      throw Unsupported("tensor '" + name + "' of format " + std::string(format) + " is missing");
  };
  need(true, "");
  need(row.has_scale, ".scale");
  need(row.has_second_scale, ".scale_2");
  need(row.has_block_scale, ".block_scale");
  need(row.has_global_scale, ".global_scale");
  const std::int64_t length =
      assay_plugin::row_length(output ? call.output(tensor) : call.input(tensor)) * row.word_elements;
  if (length % row.block_elements != 0) {
    throw Unsupported("rows of " + std::to_string(length) + " elements are not whole blocks of " +
                      std::string(format) + " (" + std::to_string(row.block_elements) + ")");
  }
}

}  // namespace

std::span<const FormatRow> formats() { return kFormats; }

const FormatRow* find_format(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const FormatRow& format_row(std::string_view name) {
  if (const FormatRow* row = find_format(name)) return *row;
  throw Unsupported("format " + std::string(name) + " has no row in this backend's list of formats");
}

std::int64_t plane_bytes(std::string_view plane_format, std::int64_t count) {
  if (plane_format == "int32") return 4 * count;
  if (plane_format == "int64") return 8 * count;
  const FormatRow& row = format_row(plane_format);
  return row.block_bytes > 0 ? count / row.block_elements * row.block_bytes : (count * row.bits + 7) / 8;
}

void check_readable(const Call& call, std::string_view tensor, std::string_view format) {
  check_planes(call, tensor, format, false);
}
void check_writable(const Call& call, std::string_view tensor, std::string_view format) {
  if (format_row(format).has_second_scale)
    throw Unsupported(std::string(format) +
                      " is made before a model is shipped: these kernels read it and do not write it");
  check_planes(call, tensor, format, true);
}

void check_dtype(std::string_view format) {
  if (format != "f32" && format != "f16" && format != "bf16")
    throw Unsupported("dtype " + std::string(format) + ": this kernel writes f32, f16 and bf16");
}

}  // namespace assay_gpu
