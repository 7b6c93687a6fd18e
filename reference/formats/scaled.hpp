// Scaled formats: a plane of scalar codes and a plane ".scale" of f32; value = code * scale, exact in f64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/formats/format.hpp"

namespace assay {

// A shape as the scale axes see it.
struct Axes {
  std::int64_t outer = 1;
  std::int64_t middle = 1;
  std::int64_t inner = 1;
};
Axes axes_of(const Shape& shape);

Shape scale_shape(const Format& format, const Shape& shape);
// Index into ".scale" of element `index` (row-major).
std::int64_t scale_index(ScaleAxis axis, const Axes& axes, std::int64_t index) noexcept;

// The scale that a tensor of a scaled format stores for element `index`.
float stored_scale(const Encoded& tensor, const Format& format, std::int64_t index);

// The f32 scales that encode_tensor computes: absmax / scale_divisor of the finite elements that share one, 1
// when that is 0; in the shape of scale_shape().
std::vector<float> absmax_scales(const Format& format, const Shape& shape, std::span<const float> values);
void encode_scaled(const Format& format, std::span<const float> values, std::span<const float> scales,
                   const EncodePolicy& policy, Encoded& into);
void decode_scaled(const Format& format, const Encoded& tensor, std::int64_t first, std::span<double> out);
void decode_scaled(const Format& format, const Encoded& tensor, std::int64_t first, std::span<float> out);

}  // namespace assay
