#include "reference/formats/scaled.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar_codec.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr std::int64_t kGroup = 32;

float scale_at(const Plane& plane, std::int64_t index) {
  float scale;
  std::memcpy(&scale, plane.bytes.data() + index * static_cast<std::int64_t>(sizeof scale), sizeof scale);
  return scale == 0 ? 0.0F : checked_scale(scale, plane.spec.suffix, index);  // code * 0 is a number: 0
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

// The largest finite |x|, 0 without one: on the bits, which order like the numbers and vectorise.
float finite_absmax(std::span<const float> x) {
  constexpr std::uint32_t kInf = 0x7F800000U;
  std::uint32_t largest = 0;
  for (const float each : x) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(each) & 0x7FFFFFFFU;
    largest = std::max(largest, magnitude < kInf ? magnitude : 0U);
  }
  return std::bit_cast<float>(largest);
}

// x as f32 rounded to odd: the neighbour toward zero, its last bit set when x lies beyond it. Rounding that
// once more, to nearest or toward zero, to a format with at least two bits less gives what rounding x at once
// would (Boldo, Melquiond 2008); below f32's normal numbers every format here has nothing but zero in reach,
// and above its largest only what overflow gives.
float to_odd(double x) {
  constexpr std::uint64_t kSticky = (std::uint64_t{1} << 29) - 1;  // 52 - 23 bits
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t odd = (bits & ~kSticky) | ((bits & kSticky) != 0 ? kSticky + 1 : 0);
  const double exact = std::bit_cast<double>(odd);
  constexpr double kLargest = std::numeric_limits<float>::max();
  return std::isfinite(x) ? static_cast<float>(std::clamp(exact, -kLargest, kLargest))
                          : static_cast<float>(x);
}

// Codes of `x`, elements [first, first + x.size()) of a tensor, that share a scale.
void encode_run(const ScalarFormat& element, std::span<const float> x, float scale,
                const EncodePolicy& policy, std::int64_t first, std::span<std::byte> codes) {
  constexpr std::size_t kChunk = 1024;
  const bool nearest = policy.rounding == Rounding::nearest_even || policy.rounding == Rounding::nearest_away;
  if (x.size() < 8 || element.bits > 16 || !nearest) {
    codec::with_rounding(policy.rounding, [&]<Rounding R>() {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::int64_t at = first + static_cast<std::int64_t>(i);
        const double quotient = static_cast<double>(x[i]) / scale;
        store_code(element, codes, at,
                   codec::encode_one<R>(element, quotient, policy, static_cast<std::uint64_t>(at)));
      }
    });
    return;
  }
  float quotient[kChunk];
  std::uint32_t code[kChunk];
  for (std::size_t from = 0; from < x.size(); from += kChunk) {
    const std::size_t n = std::min(kChunk, x.size() - from);
    for (std::size_t i = 0; i < n; ++i) quotient[i] = to_odd(static_cast<double>(x[from + i]) / scale);
    encode_many(element, {quotient, n}, policy, 0, {code, n});
    const std::int64_t at = first + static_cast<std::int64_t>(from);
    if (element.storage_bytes == 1) {
      for (std::size_t i = 0; i < n; ++i)
        codes[static_cast<std::size_t>(at) + i] = static_cast<std::byte>(code[i]);
    } else {
      for (std::size_t i = 0; i < n; ++i)
        store_code(element, codes, at + static_cast<std::int64_t>(i), code[i]);
    }
  }
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

float stored_scale(const Encoded& tensor, const Format& format, std::int64_t index) {
  float scale = 0;
  const std::int64_t at = scale_index(format.axis, axes_of(tensor.shape), index);
  std::memcpy(&scale, plane_of(tensor, ".scale").bytes.data() + at * static_cast<std::int64_t>(sizeof scale),
              sizeof scale);
  return scale;
}

std::vector<float> absmax_scales(const Format& format, const Shape& shape, std::span<const float> values) {
  const Axes axes = axes_of(shape);
  std::vector<float> scales(static_cast<std::size_t>(element_count(scale_shape(format, shape))), 0.0F);
  std::mutex merging;
  parallel_ranges(values.size(), [&](std::size_t begin, std::size_t end) {
    // Of the groups that the range touches: few where they are contiguous, and few in all where they are not.
    const bool spread = format.axis == ScaleAxis::head || format.axis == ScaleAxis::channel;
    const auto first = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end);
    const std::int64_t base = spread || first == last ? 0 : scale_index(format.axis, axes, first);
    const std::int64_t groups = spread ? static_cast<std::int64_t>(scales.size())
                                       : scale_index(format.axis, axes, last - 1) + 1 - base;
    std::vector<float> absmax(static_cast<std::size_t>(groups), 0.0F);
    for (std::int64_t i = first; i < last;) {
      const std::int64_t run = std::min(run_length(format.axis, axes, i), last - i);
      float& own = absmax[scale_index(format.axis, axes, i) - base];
      own = std::max(own, finite_absmax(values.subspan(i, run)));
      i += run;
    }
    const std::lock_guard lock(merging);
    for (std::int64_t g = 0; g < groups; ++g) scales[base + g] = std::max(scales[base + g], absmax[g]);
  });
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
  parallel_ranges(values.size(), [&](std::size_t begin, std::size_t end) {
    const auto last = static_cast<std::int64_t>(end);
    for (auto i = static_cast<std::int64_t>(begin); i < last;) {
      const std::int64_t run = std::min(run_length(format.axis, axes, i), last - i);
      encode_run(element, values.subspan(i, run), scales[scale_index(format.axis, axes, i)], policy, i,
                 codes);
      i += run;
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
