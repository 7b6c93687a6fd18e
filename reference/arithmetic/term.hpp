// A number of a narrow format taken apart as a matrix unit sees it: integer significand, exponent not
// normalised.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/error.hpp"

namespace assay {

// x = significand * 2^(exponent - fraction_bits); exponent = max(floor(log2|x|), emin); zero: significand 0.
struct Term {
  std::int64_t significand = 0;
  int exponent = 0;
};

struct TermFormat {
  std::string_view name;
  int fraction_bits;
  int emin;
  double max_finite;
  bool integer;
};

inline TermFormat term_format(std::string_view name) {
  const ScalarFormat& f = scalar_format(name);
  if (f.kind == ScalarKind::integer) return {f.name, 0, 0, f.max_finite, true};
  if (f.kind == ScalarKind::power_of_two) return {f.name, 0, -f.bias, f.max_finite, false};
  return {f.name, f.fraction_bits, 1 - f.bias, f.max_finite, false};
}

// The format that an operand is in, refused when the unit does not take it.
inline TermFormat input_format(const MatrixUnit& unit, std::string_view name) {
  const std::string_view chosen = name.empty() ? unit.inputs.substr(0, unit.inputs.find(' ')) : name;
  if (!accepts(unit, chosen)) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("operand format '{}' of {}; it takes: {}", chosen, unit.name, unit.inputs));
  }
  // Unpacked to f16 first: an FP8 subnormal is a normal f16.
  return term_format(unit.combine == Combine::unpack_split ? std::string_view("f16") : chosen);
}

// Finite x; throws bad_value when x is not a number of the format.
inline Term split(float x, const TermFormat& f) {
  if (x == 0) return {};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int field = static_cast<int>((bits >> 23) & 0xff);
  // |x| = magnitude * 2^(lead - 23), lead = floor(log2|x|) unless x is an f32 subnormal.
  const int lead = field == 0 ? -126 : field - 127;
  const std::int64_t magnitude = (bits & 0x7fffff) | (field == 0 ? 0 : 0x800000);
  int e = f.emin;
  if (!f.integer) e = lead > f.emin ? lead : f.emin;
  if (field == 0 && !f.integer && f.emin < -126) e = std::ilogb(x) > f.emin ? std::ilogb(x) : f.emin;  // e8m0
  const int shift = lead - 23 - (e - f.fraction_bits);  // magnitude * 2^shift is the significand
  const bool fits =
      shift >= 0 ? shift < 32 : shift > -24 && (magnitude & ((std::int64_t{1} << -shift) - 1)) == 0;
  if (!fits || std::fabs(static_cast<double>(x)) > f.max_finite) {
    throw InputError(InputErrorKind::bad_value, fmt::format("{} is not a number of format {}", x, f.name));
  }
  const std::int64_t significand = shift >= 0 ? magnitude << shift : magnitude >> -shift;
  return {x < 0 ? -significand : significand, e};
}

}  // namespace assay
