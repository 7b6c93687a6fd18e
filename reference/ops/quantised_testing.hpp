// Small tensors of quantised formats put together by hand, and how far a kernel is from a limit: what the
// attacks on the limits of decoding and quantising share.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {

// Largest error / limit: Inf where a limit of 0 is missed or a number is NaN that should not be, 0 where
// nothing is claimed.
template <class Numbers>
double worst_ratio(const Truth& t, const Numbers& got) {
  double worst = 0;
  for (std::size_t i = 0; i < t.value.size(); ++i) {
    const auto value = static_cast<double>(got[i]);
    const Judged one = assay::judge(value, t.value[i], t.limit[i]);
    if (t.limit[i] > 0 && std::isfinite(t.limit[i]) && std::isfinite(value))
      worst = std::max(worst, std::fabs(value - t.value[i]) / t.limit[i]);
    else if (!one.ok)
      worst = kInfinity;
  }
  return worst;
}

// A tensor whose planes are written by hand: all bytes 0 at first.
struct Handmade {
  Encoded tensor;
  Handmade(std::string_view name, const Shape& shape) : tensor{std::string(name), shape, {}} {
    for (const PlaneSpec& spec : planes(format(name), shape))
      tensor.planes.push_back({spec, std::vector<std::byte>(spec.bytes)});
  }
  // Element `index` of the plane with that suffix becomes the number x, which its scalar format holds.
  Handmade& put(std::string_view suffix, std::int64_t index, double x) {
    Plane& plane = plane_of(tensor, suffix);
    const ScalarFormat& f = scalar_format(plane.spec.format);
    store_code(f, plane.bytes, index, encode(f, x, {.overflow = Overflow::ieee}));
    return *this;
  }
  Handmade& f16(std::size_t at, double x) {
    const auto code = static_cast<std::uint16_t>(encode(scalar_format("f16"), x));
    std::memcpy(tensor.planes[0].bytes.data() + at, &code, sizeof code);
    return *this;
  }
  Handmade& byte(std::size_t at, unsigned value) {
    tensor.planes[0].bytes[at] = static_cast<std::byte>(value);
    return *this;
  }
};

// An op's case with tensors made by hand.
inline OpCase with(std::string_view op, const std::map<std::string, std::string>& attributes,
                   const std::map<std::string, Encoded>& tensors) {
  OpCase c(op, attributes);
  for (const auto& [name, tensor] : tensors) c.set.insert_or_assign(name, tensor);
  return c;
}
inline Encoded plain(std::string_view name, const Shape& shape, const Values& values) {
  return encode_tensor(format(name), shape, values, {.overflow = Overflow::ieee});
}

}  // namespace assay::testing
