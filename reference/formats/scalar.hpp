// Scalar number formats: one row of data per format, one codec that interprets every row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace assay {

// What the highest exponent means. (OCP FP8 specification 1.0; OCP MX specification 1.0; AMD CDNA3 ISA for
// fnuz.)
enum class Specials : std::uint8_t {
  ieee,            // all-ones exponent: Inf (fraction 0) and NaN: e5m2, f16, bf16, tf32, f32
  nan_all_ones,    // only S.1..1.1..1 is NaN, no Inf: e4m3fn, ue4m3 (unsigned)
  nan_minus_zero,  // the code of -0 is the one NaN, no Inf, no -0: e4m3fnuz, e5m2fnuz
  none,            // every code is a finite number: e2m1, e3m2, e2m3, integers
};

enum class ScalarKind : std::uint8_t { floating, power_of_two /* e8m0 */, integer };

struct ScalarFormat {
  std::string_view name;
  ScalarKind kind;
  int bits;           // of a code; a tf32 code is 19 bits
  int storage_bytes;  // of one element on its own; 0 when two share a byte (4 bits, low nibble first)
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool is_signed;
  Specials specials;
  double max_finite;       // asserted against the layout at compile time
  double integer_min = 0;  // kind integer only; symmetric int4 is [-7, 7] when it quantises, 8 codes decode
  double integer_max = 0;
  std::string_view note = {};
};

enum class Rounding : std::uint8_t { nearest_even, nearest_away, toward_zero, toward_negative, stochastic };
// Beyond max_finite. saturate: +-max_finite (NVIDIA SATFINITE), Inf included. ieee: round as if the exponent
// range went on, then Inf, or NaN in a format that has no Inf (464 -> 448, above -> NaN in e4m3fn).
enum class Overflow : std::uint8_t { saturate, ieee };
// NaN in. propagate: the format's one quiet NaN, sign and payload dropped (in a format without one:
// max_finite). zero: code of +0 (a quantiser that hides NaN).
enum class NanPolicy : std::uint8_t { propagate, zero };
// How the e8m0 scale of an OCP MX block is made of its absmax (blocks/microscaling.hpp has the formulas).
enum class MxScale : std::uint8_t { floor, ceil, even, rceil };

struct EncodePolicy {
  Rounding rounding = Rounding::nearest_even;
  Overflow overflow = Overflow::saturate;
  NanPolicy nan = NanPolicy::propagate;
  std::uint64_t seed = 0;  // stochastic only: the draw for element i is a pure function of (seed, i)
  MxScale mx_scale = MxScale::floor;  // OCP MX blocks only
  bool mx_exact = false;       // mxfp4_ggml: its exponent from absmax itself, not from a rounded logarithm
  bool mx_reciprocal = false;  // MxScale::rceil: absmax fl32(1 / largest), not absmax / largest
};

std::span<const ScalarFormat> scalar_formats();
const ScalarFormat& scalar_format(std::string_view name);       // throws InputError unknown_name
const ScalarFormat* find_scalar_format(std::string_view name);  // nullptr when unknown

// Exact for every code of every format. Bits above the format's are ignored. Any NaN code is a quiet NaN.
double decode(const ScalarFormat& format, std::uint32_t code) noexcept;
// The code that x rounds to; x is taken as exact. `index` feeds the stochastic draw only.
//   floating  Nearest, directed and stochastic rounding act on the real number x, so there is one rounding,
//             into subnormals too. stochastic: away from zero with probability floor(2^64 r) / 2^64, r = the
//             discarded part in units of the last place. Overflow::ieee follows IEEE 754: a directed rounding
//             that would not move a finite x beyond max_finite leaves it there (toward_zero never overflows);
//             Inf becomes Inf, or NaN without one. Specials::none saturates under either policy.
//             nan_minus_zero: -0 and every negative x that rounds to zero become code 0. Unsigned: negative x
//             that does not round to zero becomes 0 (saturate) or NaN (ieee).
//   e8m0      A power of two: ties go to the even code, stochastic is linear in x. x <= 0 and underflow
//             become 2^-127; NaN becomes 0xFF; overflow 0xFE (saturate) or 0xFF (ieee).
//   integer   Rounded, then clamped to [integer_min, integer_max] under either overflow policy.
std::uint32_t encode(const ScalarFormat& format, double x, const EncodePolicy& policy = {},
                     std::uint64_t index = 0) noexcept;
// decode(encode(x)): x rounded to the format.
double round_to(const ScalarFormat& format, double x, const EncodePolicy& policy = {},
                std::uint64_t index = 0) noexcept;

// out[i] = encode(format, x[i], policy, first_index + i); the sizes are equal. Policy and format are resolved
// once.
void encode_many(const ScalarFormat& format, std::span<const float> x, const EncodePolicy& policy,
                 std::uint64_t first_index, std::span<std::uint32_t> out) noexcept;

// The 64 uniform bits that element `index` draws under `seed`.
std::uint64_t stochastic_draw(std::uint64_t seed, std::uint64_t index) noexcept;

// The value of every code, indexed by code: formats of at most 16 bits, built at first use. Empty for wider
// ones.
std::span<const double> decode_table(const ScalarFormat& format);
std::span<const float> decode_table_f32(const ScalarFormat& format);  // exact too: 16 bits or fewer fit f32

// Code of +max_finite, and the code NaN is encoded to (max_finite's when the format has none).
std::uint32_t max_finite_code(const ScalarFormat& format) noexcept;
std::uint32_t nan_code(const ScalarFormat& format) noexcept;
bool has_nan(const ScalarFormat& format) noexcept;

}  // namespace assay
