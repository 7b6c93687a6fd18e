// int4_g32_bf16 and int4_g32_packed.
// Quantiser:
//   scale = nearest-even bf16 of fl32(absmax / 7) over the finite elements of the group; 1 where that is 0
//   code  = the policy's rounding of x / scale, within -7..7
// NaN becomes some code, as in int4_g32.
#include <cmath>
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
int4_g32_bf16 and int4_g32_packed: 32 elements of int4 along the innermost axis share a scale in bf16, 4.5 bits per element.
  plane ""        int4_g32_bf16    int4, row-major, two to a byte, the earlier element in the low nibble
                  int4_g32_packed  int32 [.., inner / 8], eight elements to a little-endian word, reordered: from the lowest
                                   bits on it holds the elements 0 2 4 6 1 3 5 7, so that two masks unpack neighbours
                                   side by side (AWQ's order)
  plane ".scale"  bf16 [.., inner / 32]
value = code * scale, exact in f32.)";

constexpr std::int64_t kGroup = 32;

struct Linear {
  static PlaneSpec payload(const Shape& shape) { return scalar_plane("", "int4", shape); }
  static std::int64_t nibble(std::int64_t element) { return element; }
};

struct Reordered {
  static PlaneSpec payload(const Shape& shape) { return scalar_plane("", "int32", grouped(shape, 8)); }
  static std::int64_t nibble(std::int64_t element) {
    constexpr std::int64_t kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};
    return element / 8 * 8 + kPlace[element % 8];
  }
};

// Order: the plane of codes, and the nibble of it that holds an element.
template <typename Order>
struct Int4Groups {
  static const ScalarFormat& int4() {
    static const ScalarFormat& row = scalar_format("int4");
    return row;
  }
  static const ScalarFormat& bf16() {
    static const ScalarFormat& row = scalar_format("bf16");
    return row;
  }

  static std::vector<PlaneSpec> planes(const Shape& shape) {
    return {Order::payload(shape), scalar_plane(".scale", "bf16", grouped(shape, kGroup))};
  }

  static void encode(std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
    for (std::size_t first = 0; first < values.size(); first += kGroup) {
      const auto group = values.subspan(first, kGroup);
      float absmax = 0;
      for (const float x : group)
        if (std::isfinite(x)) absmax = std::max(absmax, std::fabs(x));
      std::uint32_t scale_code = assay::encode(bf16(), static_cast<double>(absmax / 7.0F));
      if (decode(bf16(), scale_code) == 0) scale_code = assay::encode(bf16(), 1.0);
      store_code(bf16(), into.planes[1].bytes, static_cast<std::int64_t>(first) / kGroup, scale_code);
      const double scale = decode(bf16(), scale_code);
      for (std::size_t e = 0; e < group.size(); ++e)
        store_code(int4(), into.planes[0].bytes, Order::nibble(static_cast<std::int64_t>(first + e)),
                   assay::encode(int4(), static_cast<double>(group[e]) / scale, policy, first + e));
    }
  }

  template <typename Real>
  static void decoded(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
    static const double* const elements = decode_table(int4()).data();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      const double scale = decode(bf16(), load_code(bf16(), tensor.planes[1].bytes, at / kGroup));
      out[i] =
          static_cast<Real>(elements[load_code(int4(), tensor.planes[0].bytes, Order::nibble(at))] * scale);
    }
  }

  static void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
    static const double* const elements = decode_table(int4()).data();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      out[i] = {.code = elements[load_code(int4(), tensor.planes[0].bytes, Order::nibble(at))],
                .scale = decode(bf16(), load_code(bf16(), tensor.planes[1].bytes, at / kGroup))};
    }
  }
};

}  // namespace

constinit const BlockCodec int4_g32_bf16_codec =
    blocks::described(kStored, blocks::codec_of<Int4Groups<Linear>>());
constinit const BlockCodec int4_g32_packed_codec =
    blocks::described(kStored, blocks::codec_of<Int4Groups<Reordered>>());

}  // namespace assay
