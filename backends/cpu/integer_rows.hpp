// Rows of integer codes with one scale each: what an int8 product can take without decoding, for the scale is
// applied in the epilogue.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "backends/cpu/layouts.hpp"

namespace assay_cpu {

// int4_ch and int8 with a scale per tensor, head, token or row: constant along a row.
inline bool is_integer_rows(std::string_view format) {
  return format == "int4_ch" || (format.starts_with("int8_") && !format.ends_with("_ch"));
}

// The codes of a row as int8, int4 sign-extended.
inline void read_integers(const Planes& planes, std::string_view format, std::int64_t row, std::int8_t* out) {
  const std::byte* bytes = row_bytes(*planes.payload, row);
  if (format != "int4_ch") {
    std::memcpy(out, bytes, static_cast<std::size_t>(planes.length));
    return;
  }
  for (std::int64_t i = 0; i < planes.length; ++i) {
    const int nibble = std::to_integer<int>(bytes[i / 2]) >> (i % 2 * 4) & 0xF;
    out[i] = static_cast<std::int8_t>((nibble ^ 8) - 8);
  }
}

inline float integer_scale(const Planes& planes, std::string_view format, std::int64_t row) {
  return f32_at(*planes.scale, scale_index(layout(format).scaling, planes, row, 0));
}

}  // namespace assay_cpu
