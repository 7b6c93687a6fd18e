#include "reference/formats/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse_shape(const std::string& message) {
  throw InputError(InputErrorKind::shape_mismatch, message);
}

Encoded allocate(const Format& format, const Shape& shape, std::span<const float> values) {
  Encoded encoded{std::string(format.name), shape, {}};
  for (PlaneSpec& spec : planes(format, shape)) {
    const std::size_t bytes = spec.bytes;
    encoded.planes.push_back({std::move(spec), std::vector<std::byte>(bytes)});
  }
  const std::int64_t count = element_count(shape);
  if (count != static_cast<std::int64_t>(values.size())) {
    refuse_shape(fmt::format("{} values given for {} = {} elements of {}", values.size(), to_string(shape),
                             count, format.name));
  }
  return encoded;
}

// The common layouts, checked without building their specs: streaming callers ask for one row at a time.
// False means only that the whole comparison must say what is wrong, or that the format is none of these.
bool fits_without_doubt(const Format& format, const Encoded& tensor) {
  if (format.kind == FormatKind::block || tensor.planes.empty() || tensor.shape.empty()) return false;
  const std::int64_t count = element_count(tensor.shape);
  const ScalarFormat& element = scalar_format(format.element);
  const Plane& codes = tensor.planes[0];
  if (tensor.shape.back() % format.block_elements != 0 || !codes.spec.suffix.empty() ||
      codes.spec.format != format.element || codes.spec.shape != tensor.shape ||
      codes.bytes.size() != plane_bytes(element, count)) {
    return false;
  }
  if (format.kind == FormatKind::scalar) return tensor.planes.size() == 1;
  if (tensor.planes.size() != 2) return false;
  const Plane& scales = tensor.planes[1];
  return scales.spec.suffix == ".scale" && scales.spec.format == "f32" &&
         scales.spec.shape == scale_shape(format, tensor.shape) &&
         scales.bytes.size() == sizeof(float) * static_cast<std::size_t>(element_count(scales.spec.shape));
}

template <typename Real>
void decode_into(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
  const Format& row = check_range(tensor, first, static_cast<std::int64_t>(out.size()));
  if (out.empty()) return;
  switch (row.kind) {
    case FormatKind::scalar:
      return decode_plane(scalar_format(row.element), tensor.planes[0].bytes, first, out);
    case FormatKind::scaled:
      return decode_scaled(row, tensor, first, out);
    case FormatKind::block:
      break;
  }
  if constexpr (sizeof(Real) == sizeof(float)) {
    row.block->decode_f32(tensor, first, out);
  } else {
    row.block->decode(tensor, first, out);
  }
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1) refuse_shape(fmt::format("shape {}: every extent must be at least 1", to_string(shape)));
    if (count > std::numeric_limits<std::int64_t>::max() / 8 / extent) {
      refuse_shape(fmt::format("shape {}: too many elements", to_string(shape)));
    }
    count *= extent;
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(extent);
  }
  text += ']';
  return text;
}

std::vector<PlaneSpec> planes(const Format& format, const Shape& shape) {
  if (shape.empty()) refuse_shape(fmt::format("{}: a tensor has at least one axis", format.name));
  element_count(shape);  // refuses bad extents
  if (shape.back() % format.block_elements != 0) {
    throw InputError(InputErrorKind::ragged_block,
                     fmt::format("{}: the innermost extent {} of {} is not a multiple of {}", format.name,
                                 shape.back(), to_string(shape), format.block_elements));
  }
  if (format.kind == FormatKind::block) return format.block->planes(shape);
  std::vector<PlaneSpec> specs{scalar_plane("", format.element, shape)};
  if (format.kind == FormatKind::scaled) {
    specs.push_back(scalar_plane(".scale", "f32", scale_shape(format, shape)));
  }
  return specs;
}

void check_planes(const Encoded& tensor) {
  if (fits_without_doubt(format(tensor.format), tensor)) return;
  const std::vector<PlaneSpec> wanted = planes(format(tensor.format), tensor.shape);
  if (tensor.planes.size() != wanted.size()) {
    refuse_shape(fmt::format("{} {} has {} planes, not {}", tensor.format, to_string(tensor.shape),
                             wanted.size(), tensor.planes.size()));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Plane& got = tensor.planes[i];
    if (got.spec.suffix != wanted[i].suffix || got.spec.format != wanted[i].format ||
        got.spec.shape != wanted[i].shape || got.bytes.size() != wanted[i].bytes) {
      refuse_shape(fmt::format("{} {}: plane {} is '{}' {} {} of {} bytes, not '{}' {} {} of {}",
                               tensor.format, to_string(tensor.shape), i, wanted[i].suffix, wanted[i].format,
                               to_string(wanted[i].shape), wanted[i].bytes, got.spec.suffix, got.spec.format,
                               to_string(got.spec.shape), got.bytes.size()));
    }
  }
}

const Format& check_range(const Encoded& tensor, std::int64_t first, std::int64_t count) {
  const Format& row = format(tensor.format);
  check_planes(tensor);
  const std::int64_t total = element_count(tensor.shape);
  if (first < 0 || first > total || count > total - first) {
    refuse_shape(fmt::format("elements [{}, {}) of a tensor of {}", first, first + count, total));
  }
  if (first % row.block_elements != 0 || count % row.block_elements != 0) {
    throw InputError(InputErrorKind::ragged_block,
                     fmt::format("elements [{}, {}) of {}: both ends must be multiples of {}", first,
                                 first + count, row.name, row.block_elements));
  }
  return row;
}

Encoded encode_tensor(const Format& format, const Shape& shape, std::span<const float> values,
                      const EncodePolicy& policy) {
  Encoded encoded = allocate(format, shape, values);
  switch (format.kind) {
    case FormatKind::block:
      format.block->encode(values, policy, encoded);
      break;
    case FormatKind::scaled:
      encode_scaled(format, values, absmax_scales(format, shape, values), policy, encoded);
      break;
    case FormatKind::scalar: {
      const ScalarFormat& element = scalar_format(format.element);
      std::byte* bytes = encoded.planes[0].bytes.data();
      parallel_ranges(values.size(), [&](std::size_t first, std::size_t last) {
        std::vector<std::uint32_t> codes(last - first);
        encode_many(element, values.subspan(first, last - first), policy, first, codes);
        if (element.storage_bytes == 2) {
          for (std::size_t i = 0; i < codes.size(); ++i) {
            const auto code = static_cast<std::uint16_t>(codes[i]);
            std::memcpy(bytes + 2 * (first + i), &code, 2);
          }
        } else if (element.bits == 32) {
          std::memcpy(bytes + 4 * first, codes.data(), codes.size() * sizeof codes[0]);
        } else {
          for (std::size_t i = 0; i < codes.size(); ++i)
            store_code(element, encoded.planes[0].bytes, static_cast<std::int64_t>(first + i), codes[i]);
        }
      });
    }
  }
  return encoded;
}

Encoded encode_tensor_with_scales(const Format& format, const Shape& shape, std::span<const float> values,
                                  std::span<const float> scales, const EncodePolicy& policy) {
  if (format.kind != FormatKind::scaled) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{} takes no scales: only a scaled format does", format.name));
  }
  Encoded encoded = allocate(format, shape, values);
  const std::int64_t wanted = element_count(scale_shape(format, shape));
  if (wanted != static_cast<std::int64_t>(scales.size())) {
    refuse_shape(
        fmt::format("{} {} has {} scales, not {}", format.name, to_string(shape), wanted, scales.size()));
  }
  for (std::size_t i = 0; i < scales.size(); ++i)
    checked_scale(scales[i], ".scale", static_cast<std::int64_t>(i));
  encode_scaled(format, values, scales, policy, encoded);
  return encoded;
}

std::vector<double> decode_tensor(const Encoded& tensor) {
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor.shape)));
  decode_into<double>(tensor, 0, values);
  return values;
}

void decode_range(const Encoded& tensor, std::int64_t first, std::span<double> out) {
  decode_into(tensor, first, out);
}
void decode_range(const Encoded& tensor, std::int64_t first, std::span<float> out) {
  decode_into(tensor, first, out);
}

Shape grouped(Shape shape, int group) {
  shape.back() /= group;
  return shape;
}

PlaneSpec scalar_plane(std::string suffix, std::string_view scalar, Shape shape) {
  const std::size_t bytes = plane_bytes(scalar_format(scalar), element_count(shape));
  return {std::move(suffix), std::string(scalar), std::move(shape), bytes};
}

const Plane& plane_of(const Encoded& tensor, std::string_view suffix) {
  for (const Plane& plane : tensor.planes) {
    if (plane.spec.suffix == suffix) return plane;
  }
  refuse_shape(fmt::format("{} {} has no plane '{}'", tensor.format, to_string(tensor.shape), suffix));
}

Plane& plane_of(Encoded& tensor, std::string_view suffix) {
  return const_cast<Plane&>(plane_of(std::as_const(tensor), suffix));
}

float checked_scale(float scale, std::string_view plane, std::int64_t index) {
  if (scale > 0 && scale <= std::numeric_limits<float>::max()) return scale;
  throw InputError(InputErrorKind::bad_scale,
                   fmt::format("{}[{}] is {}; a scale is positive and finite", plane, index, scale));
}

std::vector<double> decode_output(const Encoded& tensor) {
  const auto is_refused = [](float scale) {
    return !(scale >= 0 && scale <= std::numeric_limits<float>::max());
  };
  // Scales are separate planes of f32.
  const auto has_refused = [&](const Plane& plane) {
    if (&plane == tensor.planes.data() || plane.spec.format != "f32") return false;
    for (std::size_t at = 0; at + sizeof(float) <= plane.bytes.size(); at += sizeof(float)) {
      float scale = 0;
      std::memcpy(&scale, plane.bytes.data() + at, sizeof scale);
      if (is_refused(scale)) return true;
    }
    return false;
  };
  if (std::ranges::none_of(tensor.planes, has_refused)) return decode_tensor(tensor);
  // In `probe` every code is another than 0, and so is every scale but those refused: what decodes to 0 there
  // is under one.
  Encoded usable = tensor, probe = tensor;
  for (std::size_t p = 0; p < tensor.planes.size(); ++p) {
    const Plane& plane = tensor.planes[p];
    if (p == 0 || plane.spec.format != "f32") {
      constexpr std::byte kCodes{0x11};
      std::ranges::fill(probe.planes[p].bytes, kCodes);
      continue;
    }
    for (std::size_t at = 0; at + sizeof(float) <= plane.bytes.size(); at += sizeof(float)) {
      float scale = 0;
      std::memcpy(&scale, plane.bytes.data() + at, sizeof scale);
      const bool good = !is_refused(scale);
      const float one = 1, of_probe = good ? 1 : 0;
      if (!good) std::memcpy(usable.planes[p].bytes.data() + at, &one, sizeof one);
      std::memcpy(probe.planes[p].bytes.data() + at, &of_probe, sizeof of_probe);
    }
  }
  std::vector<double> numbers(static_cast<std::size_t>(element_count(tensor.shape)),
                              std::numeric_limits<double>::quiet_NaN());
  const bool divides = std::ranges::any_of(
      tensor.planes, [](const Plane& plane) { return plane.spec.suffix == ".global_scale"; });
  if (divides) return numbers;  // one scale of all
  const std::vector<double> decoded = decode_tensor(usable), touched = decode_tensor(probe);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (touched[i] != 0) numbers[i] = decoded[i];
  return numbers;
}

std::optional<Encoded> with_zeros(const Encoded& tensor, const std::function<bool(std::size_t)>& keep) {
  const Format& row = format(tensor.format);
  if (row.kind == FormatKind::block) return std::nullopt;
  const ScalarFormat& element = scalar_format(row.element);
  if (element.storage_bytes == 0 || decode(element, 0) != 0) return std::nullopt;
  Encoded cut = tensor;
  std::vector<std::byte>& bytes = cut.planes.at(0).bytes;
  const auto each = static_cast<std::size_t>(element.storage_bytes);
  for (std::size_t i = 0; i < bytes.size() / each; ++i)
    if (!keep(i)) std::memset(bytes.data() + i * each, 0, each);
  return cut;
}

}  // namespace assay
