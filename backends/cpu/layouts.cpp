#include "backends/cpu/layouts.hpp"

#include <array>
#include <cstring>
#include <string>

#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

// Which f32 scale a row, or an element of it, has.
enum class Scaling : std::uint8_t { none, tensor, head, token, channel };

std::int64_t scale_index(Scaling scaling, const Planes& planes, std::int64_t row) {
  switch (scaling) {
    case Scaling::head:
      return row % planes.middle;
    case Scaling::token:
      return row / planes.middle;
    default:
      return 0;
  }
}

using Widen = void (*Engine::*)(const void*, float*, std::size_t);

void read_f32(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  std::memcpy(out, row_bytes(*planes.payload, row), static_cast<std::size_t>(planes.length) * sizeof(float));
}

template <Widen kWiden, Scaling kScaling>
void read_codes(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  const std::size_t n = static_cast<std::size_t>(planes.length);
  (engine.*kWiden)(row_bytes(*planes.payload, row), out, n);
  if constexpr (kScaling == Scaling::channel) {
    const std::int64_t first = row % planes.middle * planes.length;
    for (std::int64_t i = 0; i < planes.length; ++i) out[i] *= f32_at(*planes.scale, first + i);
  } else if constexpr (kScaling != Scaling::none) {
    engine.scale(f32_at(*planes.scale, scale_index(kScaling, planes, row)), out, n);
  }
}

template <const SmallFloat& kFormat>
void read_small(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i) {
    out[i] = small_value(kFormat, std::to_integer<std::uint32_t>(bytes[i]));
  }
}

void read_e8m0(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; ++i)
    out[i] = e8m0_value(std::to_integer<std::uint8_t>(bytes[i]));
}

constexpr auto kLayouts = std::to_array<Layout>({
    {"f32", 1, false, false, false, read_f32},
    {"f16", 1, false, false, false, read_codes<&Engine::from_f16, Scaling::none>},
    {"bf16", 1, false, false, false, read_codes<&Engine::from_bf16, Scaling::none>},
    {"int8", 1, false, false, false, read_codes<&Engine::from_int8, Scaling::none>},
    {"e4m3fn", 1, false, false, false, read_codes<&Engine::from_e4m3fn, Scaling::none>},
    {"e4m3fnuz", 1, false, false, false, read_codes<&Engine::from_e4m3fnuz, Scaling::none>},
    {"e5m2", 1, false, false, false, read_codes<&Engine::from_e5m2, Scaling::none>},
    {"e5m2fnuz", 1, false, false, false, read_small<kE5m2fnuz>},
    {"e3m2", 1, false, false, false, read_small<kE3m2>},
    {"e2m3", 1, false, false, false, read_small<kE2m3>},
    {"e8m0", 1, false, false, false, read_e8m0},
#define ASSAY_SCALED(element)                                                                        \
  {#element "_tensor", 1, true, false, false, read_codes<&Engine::from_##element, Scaling::tensor>}, \
      {#element "_head", 1, true, false, false, read_codes<&Engine::from_##element, Scaling::head>}, \
      {#element "_tok", 1, true, false, false, read_codes<&Engine::from_##element, Scaling::token>}, \
      {#element "_ch", 1, true, false, false, read_codes<&Engine::from_##element, Scaling::channel>}
    ASSAY_SCALED(e4m3fn),
    ASSAY_SCALED(e4m3fnuz),
    ASSAY_SCALED(e5m2),
    ASSAY_SCALED(int8),
#undef ASSAY_SCALED
});

}  // namespace

std::span<const Layout> layouts() { return kLayouts; }

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

}  // namespace assay_cpu
