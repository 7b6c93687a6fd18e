// For tests: the numbers on which conversions of one element are compared, and when two codes are the same.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "backends/gpu/elements.cuh"

namespace assay_gpu {

inline constexpr Element kToolkitElements[] = {Element::f16, Element::bf16, Element::e4m3fn, Element::e5m2,
                                               Element::e2m1};

// Every finite code's value, every midpoint of neighbours, the f32 numbers next to both, and the specials;
// both signs.
inline std::vector<float> numbers_around(Element element) {
  std::vector<float> numbers = {0.0F,
                                HUGE_VALF,
                                std::numeric_limits<float>::quiet_NaN(),
                                1e30F,
                                1e-30F,
                                std::numeric_limits<float>::denorm_min(),
                                std::numeric_limits<float>::max()};
  const SmallFloat f = small_float(element);
  for (std::uint32_t code = 0; code <= f.largest; ++code) {
    const double value = decode_element(element, code);
    const double next = code == f.largest ? 2 * value - static_cast<double>(decode_element(element, code - 1))
                                          : static_cast<double>(decode_element(element, code + 1));
    for (const double x : {value, (value + next) / 2}) {
      const float nearest = static_cast<float>(x);
      numbers.insert(numbers.end(),
                     {nearest, std::nextafter(nearest, 0.0F), std::nextafter(nearest, HUGE_VALF)});
    }
  }
  const std::size_t positive = numbers.size();
  for (std::size_t i = 0; i < positive; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

// Equal, or two codes of NaN.
inline bool same_code(Element element, std::uint32_t a, std::uint32_t b) {
  return a == b || (is_nan(decode_element(element, a)) && is_nan(decode_element(element, b)));
}

}  // namespace assay_gpu
