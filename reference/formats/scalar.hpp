// Scalar number formats: one row of data per format, one codec that interprets every row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace assay {

// What the highest exponent means. (OCP FP8 specification 1.0; OCP MX specification 1.0; AMD CDNA3 ISA for fnuz.)
enum class Specials : std::uint8_t {
  ieee,           // all-ones exponent: Inf (fraction 0) and NaN: e5m2, f16, bf16, tf32, f32
  nan_all_ones,   // only S.1..1.1..1 is NaN, no Inf: e4m3fn, ue4m3 (unsigned)
  nan_minus_zero, // the code of -0 is the one NaN, no Inf, no -0: e4m3fnuz, e5m2fnuz
  none,           // every code is a finite number: e2m1, e3m2, e2m3, integers
};

enum class ScalarKind : std::uint8_t { floating, power_of_two /* e8m0 */, integer };

struct ScalarFormat {
  std::string_view name;
  ScalarKind kind;
  int bits;           // of a code; a tf32 code is 19 bits
  int storage_bytes;  // of one element on its own; 0 when two elements share a byte (4 bits, low nibble first)
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool is_signed;
  Specials specials;
  double max_finite;        // asserted against the layout at compile time
  double integer_min = 0;   // kind integer only; symmetric int4 is [-7, 7] when it quantises, 8 codes decode
  double integer_max = 0;
  std::string_view note = {};
};

enum class Rounding : std::uint8_t { nearest_even, nearest_away, toward_zero, toward_negative, stochastic };
// Beyond max_finite. saturate: +-max_finite (NVIDIA SATFINITE), Inf included. ieee: round as if the exponent range
// went on, then Inf, or NaN in a format that has no Inf (464 -> 448, above -> NaN in e4m3fn).
enum class Overflow : std::uint8_t { saturate, ieee };
// NaN in. propagate: the format's NaN (in a format without one: refuse -> max_finite, documented at encode()).
// zero: code of +0 (a quantiser that hides NaN).
enum class NanPolicy : std::uint8_t { propagate, zero };

struct EncodePolicy {
  Rounding rounding = Rounding::nearest_even;
  Overflow overflow = Overflow::saturate;
  NanPolicy nan = NanPolicy::propagate;
  std::uint64_t seed = 0;  // stochastic only: the draw for element i is a pure function of (seed, i)
};

std::span<const ScalarFormat> scalar_formats();
const ScalarFormat& scalar_format(std::string_view name);        // throws InputError unknown_name
const ScalarFormat* find_scalar_format(std::string_view name);   // nullptr when unknown

// Exact for every code of every format.
double decode(const ScalarFormat& format, std::uint32_t code) noexcept;
// The code that x rounds to; x is exact (any f32 or f64). `index` feeds the stochastic draw only.
std::uint32_t encode(const ScalarFormat& format, double x, const EncodePolicy& policy = {},
                     std::uint64_t index = 0) noexcept;
// decode(encode(x)): x rounded to the format.
double round_to(const ScalarFormat& format, double x, const EncodePolicy& policy = {},
                std::uint64_t index = 0) noexcept;

}  // namespace assay
