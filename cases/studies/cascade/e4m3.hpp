// e4m3fn as a cache of the engine stores it: encode saturates, a NaN stays a NaN.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "reference/formats/scalar.hpp"

namespace assay::scenarios {

inline const ScalarFormat& e4m3() {
  static const ScalarFormat& format = scalar_format("e4m3fn");
  return format;
}
inline std::uint8_t e4m3_encode(float x) { return static_cast<std::uint8_t>(encode(e4m3(), x)); }
inline float e4m3_decode(std::uint8_t code) {
  static const std::span<const float> table = decode_table_f32(e4m3());
  return table[code];
}

// Which of a cache's scales an element has, by the format's axis.
inline std::size_t scale_index(std::string_view format, std::size_t token, std::size_t head) {
  return format == "e4m3fn_tok" ? token : format == "e4m3fn_head" ? head : 0;
}

inline float finite_absmax(std::span<const float> x) {
  float top = 0;
  for (const float v : x)
    if (std::isfinite(v) && std::fabs(v) > top) top = std::fabs(v);
  return top;
}

}  // namespace assay::scenarios
