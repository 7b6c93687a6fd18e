// Faults of separate f32 scales (".scale" planes), in every data tensor that has one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cases/faults/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fault_families {
namespace {

using Scales = std::span<float>;

Scales scales_of(Encoded& tensor) {
  for (auto& plane : tensor.planes)
    if (plane.spec.suffix == ".scale" && plane.spec.format == "f32")
      return {reinterpret_cast<float*>(plane.bytes.data()), plane.bytes.size() / sizeof(float)};
  return {};
}

template <typename Change>
void each_scale_plane(const FaultSite& site, TensorSet& set, std::size_t at_least, Change change) {
  int planes = 0;
  for (const auto& t : site.tensors) {
    if (t.role != TensorRole::data) continue;
    const Scales scales = scales_of(set.at(t.name));
    if (scales.size() < at_least) continue;
    ++planes;
    change(t, scales);
  }
  if (planes == 0)
    no_site(site, at_least > 1 ? "a format with several f32 scales" : "a format with f32 scales");
}

template <typename Change>
void each_scale(const FaultSite& site, TensorSet& set, Change change) {
  each_scale_plane(site, set, 1, [&](const TensorSpec&, Scales scales) {
    for (float& s : scales) s = change(s);
  });
}

void stale(Scales scales, std::size_t steps) {
  for (std::size_t i = scales.size(); i-- > steps;) scales[i] = scales[i - steps];
}

}  // namespace

// An earlier request with a quarter of the range: today's numbers clip at four times its largest.
void scale_locked(const FaultSite& site, TensorSet& set) {
  each_scale_plane(site, set, 1, [&](const TensorSpec& t, Scales scales) {
    if (format(t.format).kind != FormatKind::scaled) no_site(site, "a format with one plane of f32 scales");
    std::vector<float> earlier(scales.begin(), scales.end());
    for (float& s : earlier) s *= 0.25F;
    set.at(t.name) = encode_tensor_with_scales(format(t.format), t.shape, site.values.at(t.name), earlier);
  });
}

void scale_zero(const FaultSite& site, TensorSet& set) {
  each_scale(site, set, [](float) { return 0.0F; });
}
void scale_negative(const FaultSite& site, TensorSet& set) {
  // The first data tensor's alone: two negative factors would cancel in a product.
  bool done = false;
  each_scale_plane(site, set, 1, [&](const TensorSpec&, Scales scales) {
    if (std::exchange(done, true)) return;
    for (float& s : scales) s = -s;
  });
}
void scale_dropped(const FaultSite& site, TensorSet& set) {
  each_scale(site, set, [](float) { return 1.0F; });
}
void scale_inverted(const FaultSite& site, TensorSet& set) {
  each_scale(site, set, [](float s) { return 1.0F / s; });
}
void scale_stale_step(const FaultSite& site, TensorSet& set) {
  each_scale_plane(site, set, 2, [](const TensorSpec&, Scales scales) { stale(scales, 1); });
}
void scale_stale_page(const FaultSite& site, TensorSet& set) {
  const auto page = static_cast<std::size_t>(site.attributes.integer("page"));
  if (page == 0) no_site(site, "page > 0");
  each_scale_plane(site, set, page + 1, [&](const TensorSpec&, Scales scales) { stale(scales, page); });
}
void scale_coarse(const FaultSite& site, TensorSet& set) {
  each_scale_plane(site, set, 2, [](const TensorSpec&, Scales scales) {
    std::ranges::fill(scales, *std::ranges::max_element(scales));
  });
}

void scale_swapped_kv(const FaultSite& site, TensorSet& set) {
  const Scales k = scales_of(set.at("k")), v = scales_of(set.at("v"));
  if (k.empty() || k.size() != v.size()) no_site(site, "K and V with equally many f32 scales");
  std::swap_ranges(k.begin(), k.end(), v.begin());
}

// The upper fraction bit of an f32 scale; the lowest exponent bit of a scale that stands in a block (f16 in
// its first two bytes) or in a plane of bytes.
void scale_bit(const FaultSite& site, TensorSet& set) {
  for (const auto& t : site.tensors) {
    if (t.role != TensorRole::data) continue;
    Encoded& tensor = set.at(t.name);
    if (const Scales scales = scales_of(tensor); !scales.empty()) {
      const std::size_t i = scales.size() == 1 ? 0 : Stream(site.seed, "fault").below(2, scales.size());
      std::uint32_t bits;
      std::memcpy(&bits, &scales[i], 4);
      bits ^= 1U << 22;
      std::memcpy(&scales[i], &bits, 4);
      return;
    }
    for (auto& plane : tensor.planes)
      if (plane.spec.suffix == ".scale" || plane.spec.suffix == ".block_scale") {
        plane.bytes[0] ^= plane.spec.format == "e8m0" ? std::byte{0x01} : std::byte{0x08};
        return;
      }
    constexpr std::string_view kScaleFirst[] = {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"};
    if (std::ranges::find(kScaleFirst, tensor.format) != std::end(kScaleFirst)) {
      const std::int64_t element =
          site.op.name == "attention" ? key_elements(site, t.name, 0, seldom_seen_key(site), 0).first : 0;
      payload_bytes(tensor, element, format(tensor.format).block_elements)[1] ^= std::byte{0x04};
      return;
    }
  }
  no_site(site, "a format with scales");
}

// The 8-bit scale of an element that counts: found by trying, since each format orders its scales in its own
// way. Scales in f32 are positive and finite: that is their domain.
void nan_scale(const FaultSite& site, TensorSet& set) {
  const bool attention = site.op.name == "attention";
  Encoded& tensor = set.at(attention ? "k" : first_data(site).name);
  const std::int64_t whole = format(tensor.format).block_elements;
  const auto count = static_cast<std::uint64_t>(element_count(tensor.shape));
  const std::int64_t drawn = attention
                                 ? key_elements(site, "k", 0, seldom_seen_key(site), 0).first
                                 : static_cast<std::int64_t>(Stream(site.seed, "fault").below(0, count));
  std::vector<double> block(static_cast<std::size_t>(whole));
  for (auto& plane : tensor.planes) {
    if (plane.spec.suffix != ".scale" && plane.spec.suffix != ".block_scale") continue;
    if (format(plane.spec.format).bits_per_element != 8) continue;
    const auto nan = plane.spec.format == "e8m0" ? std::byte{0xFF} : std::byte{0x7F};
    for (std::byte& scale : plane.bytes) {
      const std::byte kept = std::exchange(scale, nan);
      decode_range(tensor, drawn / whole * whole, block);
      if (std::ranges::all_of(block, [](double x) { return std::isnan(x); })) return;
      scale = kept;
    }
  }
  no_site(site, "8-bit scales in a tensor of their own");
}

}  // namespace assay::fault_families
