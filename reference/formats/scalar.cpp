#include "reference/formats/scalar.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "reference/error.hpp"
#include "reference/formats/scalar_codec.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

using enum ScalarKind;

// The list of scalar formats. Sources: OCP OFP8 1.0 (e4m3fn, e5m2); OCP MX 1.0 (e2m1, e3m2, e2m3, e8m0, int8
// range); AMD CDNA3 ISA and Graphcore's FP8 proposal (fnuz); IEEE 754 (f16, f32); PTX ISA (bf16, tf32,
// ue4m3).
constexpr auto kRows = std::to_array<ScalarFormat>({
    // name        kind        bits bytes exp frac bias signed specials                max_finite
    {"e4m3fn", floating, 8, 1, 4, 3, 7, true, Specials::nan_all_ones, 448.0, 0, 0, "OCP FP8"},
    {"e4m3fnuz", floating, 8, 1, 4, 3, 8, true, Specials::nan_minus_zero, 240.0, 0, 0,
     "CDNA3 FP8; NaN is 0x80"},
    {"e5m2", floating, 8, 1, 5, 2, 15, true, Specials::ieee, 57344.0, 0, 0, "OCP FP8"},
    {"e5m2fnuz", floating, 8, 1, 5, 2, 16, true, Specials::nan_minus_zero, 57344.0, 0, 0,
     "CDNA3 BF8; NaN is 0x80"},
    {"e2m1", floating, 4, 0, 2, 1, 1, true, Specials::none, 6.0, 0, 0, "OCP MX FP4; two to a byte"},
    {"e3m2", floating, 6, 1, 3, 2, 3, true, Specials::none, 28.0, 0, 0,
     "OCP MX FP6; one to a byte, low bits"},
    {"e2m3", floating, 6, 1, 2, 3, 1, true, Specials::none, 7.5, 0, 0, "OCP MX FP6; one to a byte, low bits"},
    {"e8m0", power_of_two, 8, 1, 8, 0, 127, false, Specials::nan_all_ones, 0x1p127, 0, 0,
     "OCP MX scale; no zero"},
    {"ue4m3", floating, 7, 1, 4, 3, 7, false, Specials::nan_all_ones, 448.0, 0, 0,
     "scale; e4m3fn without its sign, NaN is 0x7F; one to a byte, the top bit is ignored"},
    {"f16", floating, 16, 2, 5, 10, 15, true, Specials::ieee, 65504.0, 0, 0, "IEEE binary16"},
    {"bf16", floating, 16, 2, 8, 7, 127, true, Specials::ieee, 0x1.FEp127, 0, 0, "upper half of an f32"},
    {"tf32", floating, 19, 4, 8, 10, 127, true, Specials::ieee, 0x1.FFCp127, 0, 0,
     "stored as an f32: the code shifted up by 13, low bits ignored when read"},
    {"f32", floating, 32, 4, 8, 23, 127, true, Specials::ieee, 0x1.FFFFFEp127, 0, 0, "IEEE binary32"},
    {"int8", integer, 8, 1, 0, 0, 0, true, Specials::none, 127.0, -128, 127, "two's complement"},
    {"int4", integer, 4, 0, 0, 0, 0, true, Specials::none, 7.0, -7, 7,
     "two's complement, two to a byte; -8 decodes and is never produced (symmetric)"},
    {"uint8", integer, 8, 1, 0, 0, 0, false, Specials::none, 255.0, 0, 255, "bytes and masks"},
    {"int32", integer, 32, 4, 0, 0, 0, true, Specials::none, 2147483647.0, -2147483648.0, 2147483647.0,
     "indices"},
});

consteval bool rows_agree_with_layout() {
  for (const ScalarFormat& row : kRows) {
    if (row.kind == integer) {
      if (row.max_finite != row.integer_max) return false;
      continue;
    }
    if (row.bits != (row.is_signed ? 1 : 0) + row.exponent_bits + row.fraction_bits) return false;
    if (codec::decode_code(row, codec::row_max_code(row)) != row.max_finite) return false;
    if (codec::row_has_nan(row)) {
      const double nan = codec::decode_code(row, codec::row_nan_code(row));
      if (nan == nan) return false;
    }
    // The code after max_finite is not a larger finite number: it is special, the sign, or no code at all.
    const double next = codec::decode_code(row, codec::row_max_code(row) + 1U);
    if (next > row.max_finite && next <= std::numeric_limits<double>::max()) return false;
  }
  return true;
}
static_assert(rows_agree_with_layout(), "a row's max_finite, width or NaN contradicts its layout");

}  // namespace

std::span<const ScalarFormat> scalar_formats() { return kRows; }

const ScalarFormat* find_scalar_format(std::string_view name) {
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const ScalarFormat& f) { return f.name == name; });
  return row == kRows.end() ? nullptr : &*row;
}

const ScalarFormat& scalar_format(std::string_view name) {
  if (const ScalarFormat* row = find_scalar_format(name)) return *row;
  throw unknown_name("scalar format", name, names_of(kRows));
}

double decode(const ScalarFormat& format, std::uint32_t code) noexcept {
  return codec::decode_code(format, code);
}

std::uint32_t encode(const ScalarFormat& format, double x, const EncodePolicy& policy,
                     std::uint64_t index) noexcept {
  return codec::with_rounding(policy.rounding,
                              [&]<Rounding R>() { return codec::encode_one<R>(format, x, policy, index); });
}

double round_to(const ScalarFormat& format, double x, const EncodePolicy& policy,
                std::uint64_t index) noexcept {
  return decode(format, encode(format, x, policy, index));
}

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ASSAY_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ASSAY_VECTOR_CLONES
#endif

// encode_floating for f32 into a signed format of fewer exponent bits than f32, deterministic roundings: the
// same steps in 32 bits and without branches, so that the compiler can vectorise them. Held to the codec by
// the tests.
ASSAY_VECTOR_CLONES
void encode_narrow(const ScalarFormat& f, const float* x, std::size_t count, const EncodePolicy& policy,
                   std::uint32_t* out) {
  using Int = std::int32_t;
  // Masks are 0 or -1, and a choice is bits: a branch, even on a loop constant, would end the vector code.
  const auto mask = [](bool condition) { return condition ? Int{-1} : Int{0}; };
  const auto pick = [](Int chosen, Int yes, Int no) { return (yes & chosen) | (no & ~chosen); };
  const Int fraction_bits = f.fraction_bits;
  const Int smallest_normal = 128 - f.bias;  // as an exponent field of f32
  const auto largest = static_cast<Int>(codec::row_max_code(f));
  const auto sign_code = static_cast<Int>(codec::sign_bit(f));
  const Int to_even = mask(policy.rounding == Rounding::nearest_even);
  const Int nearest = to_even | mask(policy.rounding == Rounding::nearest_away);
  const Int downwards = mask(policy.rounding == Rounding::toward_negative);
  const bool ieee = policy.overflow == Overflow::ieee && f.specials != Specials::none;
  const bool to_nan = ieee && f.specials != Specials::ieee;
  const auto nan_code = static_cast<Int>(codec::row_nan_code(f));
  const Int nan = policy.nan == NanPolicy::propagate ? nan_code : 0;
  const Int beyond = to_nan ? nan_code : ieee ? largest + 1 : largest;
  const Int beyond_sign = to_nan ? 0 : sign_code;
  const Int zero_sign = f.specials == Specials::nan_minus_zero ? 0 : sign_code;
  constexpr Int kInfinity = 0x7F800000;
  constexpr Int kNever = 0x7FFFFFFF;
  for (std::size_t i = 0; i < count; ++i) {
    const Int bits = std::bit_cast<Int>(x[i]);
    const Int negative = bits >> 31;
    const Int magnitude = bits & 0x7FFFFFFF;
    const Int field = magnitude >> 23;
    const Int exponent = std::max(field, Int{1});
    const Int significand = (magnitude & 0x7FFFFF) | (-Int{field > 0} & 0x800000);
    const Int quantum = std::max(exponent, smallest_normal);
    // 25: all discarded, under half.
    const Int shift = std::min(23 - fraction_bits + quantum - exponent, Int{25});
    const Int rest = significand & ((Int{1} << shift) - 1);
    const Int half = Int{1} << (shift - 1);
    const Int below = ((quantum - smallest_normal) << fraction_bits) + (significand >> shift);
    const Int directed = pick(downwards & negative, 0, kNever);
    const Int limit = pick(nearest, half - pick(to_even, below & 1, 1), directed);
    const Int code = below + Int{rest > limit};
    const Int stays = ~nearest & ~(downwards & negative) & -Int{magnitude < kInfinity};
    const Int over = pick(stays, largest | (negative & sign_code), beyond | (negative & beyond_sign));
    const Int within = code | (negative & pick(-Int{code == 0}, zero_sign, sign_code));
    const Int number = pick(-Int{code > largest}, over, within);
    out[i] = static_cast<std::uint32_t>(pick(-Int{magnitude > kInfinity}, nan, number));
  }
}

// Formats with the exponent of f32 (f32 itself, bf16, tf32), to nearest even: adding just under half of the
// last kept bit, or half when that bit is odd, rounds the code of every finite number, subnormals included.
// False when a result is not finite: its code depends on policies, and the codec gives it.
ASSAY_VECTOR_CLONES
bool encode_prefix(int dropped, const float* x, std::size_t count, std::uint32_t* out) {
  const std::uint32_t last = dropped == 0 ? 0 : std::uint32_t{1} << dropped;
  const std::uint32_t under_half = dropped == 0 ? 0 : (last >> 1) - 1;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t rounded = bits + under_half + ((bits & last) != 0 ? 1 : 0);
    largest = std::max(largest, std::max(magnitude, rounded & 0x7FFFFFFFu));
    out[i] = rounded >> dropped;
  }
  return largest < 0x7F800000u;
}

}  // namespace

void encode_many(const ScalarFormat& format, std::span<const float> x, const EncodePolicy& policy,
                 std::uint64_t first_index, std::span<std::uint32_t> out) noexcept {
  const ScalarFormat f = format;  // a copy the compiler can keep in registers
  const EncodePolicy p = policy;
  const std::size_t count = std::min(x.size(), out.size());
  if (f.kind == floating && f.is_signed && f.exponent_bits < 8 && p.rounding != Rounding::stochastic) {
    return encode_narrow(f, x.data(), count, p, out.data());
  }
  if (f.kind == floating && f.is_signed && f.exponent_bits == 8 && f.bias == 127 &&
      f.specials == Specials::ieee && p.rounding == Rounding::nearest_even &&
      encode_prefix(23 - f.fraction_bits, x.data(), count, out.data())) {
    return;
  }
  codec::with_rounding(p.rounding, [&]<Rounding R>() {
    for (std::size_t i = 0; i < count; ++i) out[i] = codec::encode_one<R>(f, x[i], p, first_index + i);
  });
}

std::uint64_t stochastic_draw(std::uint64_t seed, std::uint64_t index) noexcept {
  return codec::draw(seed, index);
}
std::uint32_t max_finite_code(const ScalarFormat& format) noexcept { return codec::row_max_code(format); }
std::uint32_t nan_code(const ScalarFormat& format) noexcept { return codec::row_nan_code(format); }
bool has_nan(const ScalarFormat& format) noexcept { return codec::row_has_nan(format); }

namespace {

template <typename Real>
std::span<const Real> table_of(const ScalarFormat& format) {
  static std::array<std::once_flag, kRows.size()> built;
  static std::array<std::vector<Real>, kRows.size()> tables;
  if (format.bits > 16) return {};
  const auto row = static_cast<std::size_t>(find_scalar_format(format.name) - kRows.data());
  std::call_once(built[row], [&] {
    tables[row].resize(std::size_t{1} << format.bits);
    for (std::uint32_t code = 0; code < tables[row].size(); ++code) {
      tables[row][code] = static_cast<Real>(decode(format, code));
    }
  });
  return tables[row];
}

}  // namespace

std::span<const double> decode_table(const ScalarFormat& format) { return table_of<double>(format); }
std::span<const float> decode_table_f32(const ScalarFormat& format) { return table_of<float>(format); }

}  // namespace assay
