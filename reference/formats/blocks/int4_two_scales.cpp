// int4_ch_tensor and int4_g32_tensor.
// Quantiser, by way of FP8 (what progressive W4A8 does):
//   scale_2 = absmax / 448 over the tensor's finite elements, 1 where that is 0
//   e       = e4m3fn of x / scale_2, saturating
//   scale   = absmax / 7 over the group's e that are finite, 1 where that is 0
//   code    = the policy's rounding of e / scale
// The scales in f32. NaN becomes some code, as in the formats with one scale.
#include <cmath>
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
int4_ch_tensor and int4_g32_tensor: int4 under two scales, one of the tensor.
  plane ""          int4, row-major, two to a byte, the earlier element in the low nibble
  plane ".scale"    f32, one per row [outer * middle] (an output channel), or per 32 neighbours [outer * middle, inner / 32]
  plane ".scale_2"  f32 [1]
Checkpoints: ModelOpt's weight_scale is .scale and its weight_scale_2 is .scale_2; Quark's are the other way round, weight_scale
that of the tensor (its FP8 step) and weight_scale_2 that of the channels (its int4 step). `assay checkpoint` reads both.
value = code * scale * scale_2, exact in f64 (3 + 24 + 24 bits); as float the nearest f32.)";

struct PerRow {
  static std::int64_t group(const Shape& shape) { return shape.back(); }
  static Shape scales(const Shape& shape) { return {element_count(shape) / shape.back()}; }
};

struct Per32 {
  static std::int64_t group(const Shape&) { return 32; }
  static Shape scales(const Shape& shape) { return {element_count(shape) / shape.back(), shape.back() / 32}; }
};

float f32_at(const Plane& plane, std::int64_t index) {
  float scale;
  std::memcpy(&scale, plane.bytes.data() + index * static_cast<std::int64_t>(sizeof scale), sizeof scale);
  return scale == 0 ? 0.0F : checked_scale(scale, plane.spec.suffix, index);
}

void put_f32(Plane& plane, std::int64_t index, float scale) {
  std::memcpy(plane.bytes.data() + index * static_cast<std::int64_t>(sizeof scale), &scale, sizeof scale);
}

float or_one(float scale) { return scale == 0 ? 1.0F : scale; }

// Groups: how many neighbours share a scale, and the shape of the scales.
template <typename Groups>
struct Int4TwoScales {
  static const ScalarFormat& int4() {
    static const ScalarFormat& row = scalar_format("int4");
    return row;
  }

  static std::vector<PlaneSpec> planes(const Shape& shape) {
    return {scalar_plane("", "int4", shape), scalar_plane(".scale", "f32", Groups::scales(shape)),
            scalar_plane(".scale_2", "f32", {1})};
  }

  static void encode(std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
    static const ScalarFormat& e4m3fn = scalar_format("e4m3fn");
    float tensor_absmax = 0;
    for (const float x : values)
      if (std::isfinite(x)) tensor_absmax = std::max(tensor_absmax, std::fabs(x));
    const float second = or_one(tensor_absmax / 448.0F);
    put_f32(into.planes[2], 0, second);
    const auto size = static_cast<std::size_t>(Groups::group(into.shape));
    std::vector<double> in_fp8(size);
    for (std::size_t first = 0; first < values.size(); first += size) {
      float absmax = 0;
      for (std::size_t e = 0; e < size; ++e) {
        in_fp8[e] = round_to(e4m3fn, static_cast<double>(values[first + e]) / second, policy, first + e);
        if (std::isfinite(in_fp8[e])) absmax = std::max(absmax, static_cast<float>(std::fabs(in_fp8[e])));
      }
      const float scale = or_one(absmax / 7.0F);
      put_f32(into.planes[1], static_cast<std::int64_t>(first / size), scale);
      for (std::size_t e = 0; e < size; ++e)
        store_code(int4(), into.planes[0].bytes, static_cast<std::int64_t>(first + e),
                   assay::encode(int4(), in_fp8[e] / scale, policy, first + e));
    }
  }

  template <typename Real>
  static void decoded(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
    static const double* const elements = decode_table(int4()).data();
    const double second = f32_at(tensor.planes[2], 0);
    const std::int64_t size = Groups::group(tensor.shape);
    std::int64_t group = -1;
    double scale = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      if (at / size != group) {
        group = at / size;
        scale = f32_at(tensor.planes[1], group) * second;
      }
      out[i] = static_cast<Real>(elements[load_code(int4(), tensor.planes[0].bytes, at)] * scale);
    }
  }

  static void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
    static const double* const elements = decode_table(int4()).data();
    const double second = f32_at(tensor.planes[2], 0);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      out[i] = {.code = elements[load_code(int4(), tensor.planes[0].bytes, at)],
                .scale = f32_at(tensor.planes[1], at / Groups::group(tensor.shape)),
                .second = second};
    }
  }
};

}  // namespace

constinit const BlockCodec int4_ch_tensor_codec =
    blocks::described(kStored, blocks::codec_of<Int4TwoScales<PerRow>>());
constinit const BlockCodec int4_g32_tensor_codec =
    blocks::described(kStored, blocks::codec_of<Int4TwoScales<Per32>>());

}  // namespace assay
