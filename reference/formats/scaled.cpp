#include "reference/formats/scaled.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar_codec.hpp"

namespace assay {
namespace {

constexpr std::int64_t kGroup = 32;

float scale_at(const Plane& plane, std::int64_t index) {
  float scale;
  std::memcpy(&scale, plane.bytes.data() + index * static_cast<std::int64_t>(sizeof scale), sizeof scale);
  return checked_scale(scale, plane.spec.suffix, index);
}

// How many elements from `index` on share its scale.
std::int64_t run_length(ScaleAxis axis, const Axes& axes, std::int64_t index) {
  const auto rest_of = [&](std::int64_t period) { return period - index % period; };
  switch (axis) {
    case ScaleAxis::none:
    case ScaleAxis::tensor:
      break;
    case ScaleAxis::head:
    case ScaleAxis::row:
      return rest_of(axes.inner);
    case ScaleAxis::token:
      return rest_of(axes.middle * axes.inner);
    case ScaleAxis::channel:
      return 1;
    case ScaleAxis::group32:
      return rest_of(kGroup);
  }
  return axes.outer * axes.middle * axes.inner - index;
}

template <typename Real>
void decode_as(const Format& format, const Encoded& tensor, std::int64_t first, std::span<Real> out) {
  const Axes axes = axes_of(tensor.shape);
  const Plane& scales = plane_of(tensor, ".scale");
  decode_plane(scalar_format(format.element), tensor.planes[0].bytes, first, out);
  const auto count = static_cast<std::int64_t>(out.size());
  // Real * float: exact as double; as float the one rounding to the nearest f32.
  if (format.axis == ScaleAxis::channel) {
    const std::int64_t period = axes.middle * axes.inner;
    const std::int64_t distinct = std::min(period, count);
    std::vector<Real> wheel(static_cast<std::size_t>(distinct));
    for (std::int64_t i = 0; i < distinct; ++i) wheel[i] = scale_at(scales, (first + i) % period);
    for (std::int64_t i = 0; i < count; i += distinct) {
      for (std::int64_t j = 0; j < std::min(distinct, count - i); ++j) out[i + j] *= wheel[j];
    }
    return;
  }
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t run = std::min(run_length(format.axis, axes, first + i), count - i);
    const Real scale = scale_at(scales, scale_index(format.axis, axes, first + i));
    for (std::int64_t j = i; j < i + run; ++j) out[j] *= scale;
    i += run;
  }
}

}  // namespace

Axes axes_of(const Shape& shape) {
  Axes axes;
  const std::size_t rank = shape.size();
  axes.inner = rank > 0 ? shape[rank - 1] : 1;
  axes.middle = rank > 2 ? shape[rank - 2] : 1;
  axes.outer = element_count(shape) / (axes.inner * axes.middle);
  return axes;
}

Shape scale_shape(const Format& format, const Shape& shape) {
  const Axes axes = axes_of(shape);
  switch (format.axis) {
    case ScaleAxis::none:
    case ScaleAxis::tensor:
      break;
    case ScaleAxis::head:
      return {axes.middle};
    case ScaleAxis::token:
      return {axes.outer};
    case ScaleAxis::channel:
      return {axes.middle, axes.inner};
    case ScaleAxis::row:
      return {axes.outer * axes.middle};
    case ScaleAxis::group32:
      return {axes.outer * axes.middle, axes.inner / kGroup};
  }
  return {1};
}

std::int64_t scale_index(ScaleAxis axis, const Axes& axes, std::int64_t index) noexcept {
  switch (axis) {
    case ScaleAxis::none:
    case ScaleAxis::tensor:
      break;
    case ScaleAxis::head:
      return index / axes.inner % axes.middle;
    case ScaleAxis::token:
      return index / (axes.inner * axes.middle);
    case ScaleAxis::channel:
      return index % (axes.inner * axes.middle);
    case ScaleAxis::row:
      return index / axes.inner;
    case ScaleAxis::group32:
      return index / kGroup;  // inner is a multiple of it
  }
  return 0;
}

std::vector<float> absmax_scales(const Format& format, const Shape& shape, std::span<const float> values) {
  const Axes axes = axes_of(shape);
  std::vector<float> scales(static_cast<std::size_t>(element_count(scale_shape(format, shape))), 0.0F);
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t run = std::min(run_length(format.axis, axes, i), count - i);
    float& absmax = scales[scale_index(format.axis, axes, i)];
    for (std::int64_t j = i; j < i + run; ++j) {
      const float magnitude = std::fabs(values[j]);
      if (std::isfinite(magnitude)) absmax = std::max(absmax, magnitude);
    }
    i += run;
  }
  for (float& scale : scales) {
    scale /= static_cast<float>(format.scale_divisor);
    if (scale == 0) scale = 1;
  }
  return scales;
}

void encode_scaled(const Format& format, std::span<const float> values, std::span<const float> scales,
                   const EncodePolicy& policy, Encoded& into) {
  const Axes axes = axes_of(into.shape);
  const ScalarFormat element = scalar_format(format.element);
  const std::span<std::byte> codes = into.planes[0].bytes;
  std::memcpy(plane_of(into, ".scale").bytes.data(), scales.data(), scales.size_bytes());
  codec::with_rounding(policy.rounding, [&]<Rounding R>() {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      const double quotient = static_cast<double>(values[i]) / scales[scale_index(format.axis, axes, i)];
      store_code(element, codes, i,
                 codec::encode_one<R>(element, quotient, policy, static_cast<std::uint64_t>(i)));
    }
  });
}

void decode_scaled(const Format& format, const Encoded& tensor, std::int64_t first, std::span<double> out) {
  decode_as(format, tensor, first, out);
}
void decode_scaled(const Format& format, const Encoded& tensor, std::int64_t first, std::span<float> out) {
  decode_as(format, tensor, first, out);
}

}  // namespace assay
