#include "backends/cpu/layouts.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

using Widen = void (*Engine::*)(const void*, float*, std::size_t);
using Narrow = void (*Engine::*)(const float*, void*, std::size_t);

void read_f32(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  std::memcpy(out, row_bytes(*planes.payload, row), static_cast<std::size_t>(planes.length) * sizeof(float));
}
void write_f32(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  std::memcpy(mutable_row(*planes.payload, row), values,
              static_cast<std::size_t>(planes.length) * sizeof(float));
}

template <Narrow kNarrow>
void write_halves(const Planes& planes, const Engine& engine, std::int64_t row, const float* values) {
  (engine.*kNarrow)(values, mutable_row(*planes.payload, row), static_cast<std::size_t>(planes.length));
}

template <Scaling kScaling>
void apply_scale(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  if constexpr (kScaling == Scaling::channel) {
    const std::byte* scales = row_bytes(*planes.scale, row % planes.middle);
    for (std::int64_t i = 0; i < planes.length; ++i) {
      float scale;
      std::memcpy(&scale, scales + i * static_cast<std::int64_t>(sizeof scale), sizeof scale);
      out[i] *= scale;
    }
  } else if constexpr (kScaling == Scaling::group32) {
    for (std::int64_t i = 0; i < planes.length; i += 32) {
      engine.scale(f32_at(*planes.scale, scale_index(kScaling, planes, row, i)), out + i, 32);
    }
  } else if constexpr (kScaling != Scaling::none) {
    engine.scale(f32_at(*planes.scale, scale_index(kScaling, planes, row, 0)), out,
                 static_cast<std::size_t>(planes.length));
  }
}

template <Widen kWiden, Scaling kScaling>
void read_codes(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  (engine.*kWiden)(row_bytes(*planes.payload, row), out, static_cast<std::size_t>(planes.length));
  apply_scale<kScaling>(planes, engine, row, out);
}

// The value divided by its scale, in f32.
template <Scaling kScaling>
float unscaled(const Planes& planes, std::int64_t row, std::int64_t i, float x) {
  if constexpr (kScaling == Scaling::none) return x;
  return x / f32_at(*planes.scale, scale_index(kScaling, planes, row, i));
}

template <const SmallFloat& kFormat, Scaling kScaling>
void write_small(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  std::byte* bytes = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    bytes[i] = static_cast<std::byte>(small_code(kFormat, unscaled<kScaling>(planes, row, i, values[i])));
  }
}

template <const SmallFloat& kFormat>
void read_small(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::uint32_t code = 0; code < 256; ++code) values[code] = small_value(kFormat, code);
    return values;
  }();
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) out[i] = table[std::to_integer<std::uint8_t>(bytes[i])];
}

template <Scaling kScaling>
void write_int8(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  std::byte* bytes = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    const int code = round_to_integer(unscaled<kScaling>(planes, row, i, values[i]), -128, 127);
    bytes[i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
  }
}

// Two to a byte, the earlier element low.
template <class Value>
void read_nibbles(const Planes& planes, std::int64_t row, float* out, const Value& value) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    out[i] = value(std::to_integer<std::uint32_t>(bytes[i / 2]) >> (i % 2 * 4) & 0xFU);
  }
}
template <class Code>
void write_nibbles(const Planes& planes, std::int64_t row, const Code& code) {
  std::byte* bytes = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; i += 2)
    bytes[i / 2] = static_cast<std::byte>(code(i) | code(i + 1) << 4);
}

template <Scaling kScaling>
void read_int4(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  read_nibbles(planes, row, out,
               [](std::uint32_t code) { return static_cast<float>(static_cast<int>(code ^ 8U) - 8); });
  apply_scale<kScaling>(planes, engine, row, out);
}
template <Scaling kScaling>
void write_int4(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_nibbles(planes, row, [&](std::int64_t i) {
    return static_cast<std::uint32_t>(
               round_to_integer(unscaled<kScaling>(planes, row, i, values[i]), -7, 7)) &
           0xFU;
  });
}

void read_e2m1(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  read_nibbles(planes, row, out, [](std::uint32_t code) { return small_value(kE2m1, code); });
}
void write_e2m1(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  write_nibbles(planes, row, [&](std::int64_t i) { return small_code(kE2m1, values[i]); });
}

constexpr auto kLayouts = std::to_array<Layout>({
    {"f32", 1, Scaling::none, false, false, 0, read_f32, write_f32},
    {"f16", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_f16, Scaling::none>,
     write_halves<&Engine::to_f16>},
    {"bf16", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_bf16, Scaling::none>,
     write_halves<&Engine::to_bf16>},
    {"int8", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_int8, Scaling::none>,
     write_int8<Scaling::none>},
    {"int4", 2, Scaling::none, false, false, 0, read_int4<Scaling::none>, write_int4<Scaling::none>},
    {"e4m3fn", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_e4m3fn, Scaling::none>,
     write_small<kE4m3fn, Scaling::none>},
    {"e4m3fnuz", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_e4m3fnuz, Scaling::none>,
     write_small<kE4m3fnuz, Scaling::none>},
    {"e5m2", 1, Scaling::none, false, false, 0, read_codes<&Engine::from_e5m2, Scaling::none>,
     write_small<kE5m2, Scaling::none>},
    {"e5m2fnuz", 1, Scaling::none, false, false, 0, read_small<kE5m2fnuz>,
     write_small<kE5m2fnuz, Scaling::none>},
    {"e3m2", 1, Scaling::none, false, false, 0, read_small<kE3m2>, write_small<kE3m2, Scaling::none>},
    {"e2m3", 1, Scaling::none, false, false, 0, read_small<kE2m3>, write_small<kE2m3, Scaling::none>},
    {"e2m1", 2, Scaling::none, false, false, 0, read_e2m1, write_e2m1},
    {"e8m0", 1, Scaling::none, false, false, 0, read_e8m0, write_e8m0},
    {"ue4m3", 1, Scaling::none, false, false, 0, read_ue4m3, write_ue4m3},
    {"uint8", 1, Scaling::none, false, false, 0, read_uint8, write_uint8},
    {"tf32", 1, Scaling::none, false, false, 0, read_tf32, write_tf32},
#define ASSAY_SCALED_ONE(text, widen, axis, divisor, write) \
  {text, 1, Scaling::axis, true, false, divisor, read_codes<&Engine::widen, Scaling::axis>, write}
#define ASSAY_SCALED(element, format, divisor)                           \
  ASSAY_SCALED_ONE(#element "_tensor", from_##element, tensor, divisor,  \
                   (write_small<format, Scaling::tensor>)),              \
      ASSAY_SCALED_ONE(#element "_head", from_##element, head, divisor,  \
                       (write_small<format, Scaling::head>)),            \
      ASSAY_SCALED_ONE(#element "_tok", from_##element, token, divisor,  \
                       (write_small<format, Scaling::token>)),           \
      ASSAY_SCALED_ONE(#element "_ch", from_##element, channel, divisor, \
                       (write_small<format, Scaling::channel>)),         \
      ASSAY_SCALED_ONE(#element "_row", from_##element, row, divisor, (write_small<format, Scaling::row>))
    ASSAY_SCALED(e4m3fn, kE4m3fn, 448),
    ASSAY_SCALED(e4m3fnuz, kE4m3fnuz, 240),
    ASSAY_SCALED(e5m2, kE5m2, 57344),
    ASSAY_SCALED_ONE("int8_tensor", from_int8, tensor, 127, write_int8<Scaling::tensor>),
    ASSAY_SCALED_ONE("int8_head", from_int8, head, 127, write_int8<Scaling::head>),
    ASSAY_SCALED_ONE("int8_tok", from_int8, token, 127, write_int8<Scaling::token>),
    ASSAY_SCALED_ONE("int8_ch", from_int8, channel, 127, write_int8<Scaling::channel>),
    ASSAY_SCALED_ONE("int8_row", from_int8, row, 127, write_int8<Scaling::row>),
#undef ASSAY_SCALED
#undef ASSAY_SCALED_ONE
    {"int4_ch", 2, Scaling::row, true, false, 7, read_int4<Scaling::row>, write_int4<Scaling::row>},
    {"int4_g32", 32, Scaling::group32, true, false, 7, read_int4<Scaling::group32>,
     write_int4<Scaling::group32>},
    {"int4_g32_bf16", 32, Scaling::none, true, false, 7, read_int4_g32_bf16, write_int4_g32_bf16},
    {"int4_g32_packed", 32, Scaling::none, true, false, 7, read_int4_g32_packed, write_int4_g32_packed, 8},
    {"int4_ch_tensor", 2, Scaling::second, true, false, 7, read_int4_ch_tensor, write_int4_ch_tensor},
    {"int4_g32_tensor", 32, Scaling::second, true, false, 7, read_int4_g32_tensor, write_int4_g32_tensor},
#define ASSAY_BLOCK(name) {#name, 32, Scaling::none, false, false, 0, read_##name, write_##name}
    ASSAY_BLOCK(q8_0),
    ASSAY_BLOCK(q4_0),
    ASSAY_BLOCK(q4_1),
    ASSAY_BLOCK(q5_0),
    ASSAY_BLOCK(q5_1),
    ASSAY_BLOCK(iq4_nl),
    ASSAY_BLOCK(tq3_0_c2s1),
    ASSAY_BLOCK(tq3_0_c2),
    ASSAY_BLOCK(mxfp4_ggml),
#undef ASSAY_BLOCK
    {"mxfp4", 32, Scaling::none, true, false, 0, read_mxfp4, write_mxfp4},
    {"mxfp8", 32, Scaling::none, true, false, 0, read_mxfp8, write_mxfp8},
    {"mxfp8_e5m2", 32, Scaling::none, true, false, 0, read_mxfp8_e5m2, write_mxfp8_e5m2},
    {"nvfp4", 16, Scaling::global, false, true, 0, read_nvfp4, write_nvfp4},
    {"nvfp4_swizzled", 16, Scaling::global, false, true, 0, read_nvfp4_swizzled, write_nvfp4_swizzled},
});

}  // namespace

std::span<const Layout> layouts() { return kLayouts; }

const Layout& rotated_layout(const Layout& layout) {
  static constexpr Layout kRotated[] = {
      {"tq3_0_c2s1", 32, Scaling::none, false, false, 0, read_tq3_0_c2s1_rotated, nullptr},
      {"tq3_0_c2", 32, Scaling::none, false, false, 0, read_tq3_0_c2_rotated, nullptr},
  };
  for (const Layout& row : kRotated)
    if (row.name == layout.name) return row;
  throw Unsupported("format " + std::string(layout.name) + " is not stored rotated");
}

const Layout* find_layout(std::string_view name) {
  for (const Layout& row : kLayouts) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const Layout& layout(std::string_view name) {
  if (const Layout* row = find_layout(name)) return *row;
  throw Unsupported("format " + std::string(name) + " has no row in the cpu backend's list of layouts");
}

std::int64_t scale_index(Scaling scaling, const Planes& planes, std::int64_t row, std::int64_t column) {
  switch (scaling) {
    case Scaling::head:
      return row % planes.middle;
    case Scaling::token:
      return row / planes.middle;
    case Scaling::channel:
      return row % planes.middle * planes.length + column;
    case Scaling::row:
      return row;
    case Scaling::group32:
      return row * (planes.length / 32) + column / 32;
    case Scaling::none:
    case Scaling::tensor:
    case Scaling::second:
    case Scaling::global:
      break;
  }
  return 0;
}

namespace {

const assay_tensor& scale_plane(const Layout& layout, const Planes& planes) {
  return layout.scaling == Scaling::global   ? *planes.global_scale
         : layout.scaling == Scaling::second ? *planes.scale_2
                                             : *planes.scale;
}

}  // namespace

void write_scales(const Layout& layout, const Planes& planes, const float* values, std::int64_t rows,
                  float divisor) {
  if (layout.scaling == Scaling::none) return;
  const assay_tensor& plane = scale_plane(layout, planes);
  std::vector<float> absmax(static_cast<std::size_t>(element_count(plane)), 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < planes.length; ++i) {
      const float magnitude = std::fabs(values[row * planes.length + i]);
      float& largest = absmax[static_cast<std::size_t>(scale_index(layout.scaling, planes, row, i))];
      if (std::isfinite(magnitude) && magnitude > largest) largest = magnitude;
    }
  }
  for (std::size_t s = 0; s < absmax.size(); ++s) {
    float scale = absmax[s] / (divisor != 0                        ? divisor
                               : layout.scaling == Scaling::second ? 448.0F  // of the e4m3fn in between
                                                                   : layout.scale_divisor);
    if (layout.scaling == Scaling::global) {
      scale = absmax[s] > 0 ? std::fmin(448.0F * 6.0F / absmax[s], std::numeric_limits<float>::max()) : 1.0F;
    }
    put_f32(plane, static_cast<std::int64_t>(s), scale == 0 ? 1.0F : scale);
  }
}

void write_unit_scales(const Layout& layout, const Planes& planes) {
  if (layout.scaling == Scaling::none) return;
  const assay_tensor& plane = scale_plane(layout, planes);
  for (std::int64_t s = 0; s < element_count(plane); ++s) put_f32(plane, s, 1.0F);
}

}  // namespace assay_cpu
