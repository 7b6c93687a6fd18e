#include "reference/replay/special_functions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/replay/special_tables.hpp"

namespace assay {
namespace {

constexpr int kFractionBits = 23;
constexpr std::uint32_t kFractions = 1U << kFractionBits;
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr int kValueBits = 58;  // behind the point: 12 of c2 and 46 of the square
constexpr float kLn2 = 0.69314718246459961f;

// square(x) / 2^column for each x of so many bits.
template <int kBits, int kColumn>
std::vector<std::uint16_t> squares() {
  std::vector<std::uint16_t> table(std::size_t{1} << kBits);
  for (std::uint32_t x = 0; x < table.size(); ++x) {
    std::uint32_t sum = 0;
    for (int i = 0; i < kBits; ++i) {
      if ((x >> i & 1) == 0) continue;
      if (2 * i >= kColumn) sum += 1U << (2 * i - kColumn);
      for (int j = i + 1; j < kBits; ++j)
        if ((x >> j & 1) != 0 && i + j + 1 >= kColumn) sum += 1U << (i + j + 1 - kColumn);
    }
    table[x] = static_cast<std::uint16_t>(sum);
  }
  return table;
}

// 64 segments have x of 17 bits and the squarer's columns from 19 on, 128 segments have 16 and 17.
constexpr int kWideColumn = 19, kNarrowColumn = 17;

template <int kColumn, std::size_t kSegments>
std::int64_t interpolated(const std::array<Coefficients, kSegments>& table, std::uint32_t fraction) {
  constexpr int kBits = kColumn == kWideColumn ? 17 : 16;
  static const std::vector<std::uint16_t> square = squares<kBits, kColumn>();
  const Coefficients& c = table[fraction >> kBits];
  const std::int64_t x = fraction & ((1U << kBits) - 1);
  return c.c0 * (1 << 18) + c.c1 * x * (1 << 19) +
         c.c2 * std::int64_t{square[static_cast<std::size_t>(x)]} * (1 << kColumn);
}

}  // namespace

float ex2_approx_ftz(float x) {
  if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
  if (x >= 128) return kInf;
  if (x < -126) return 0;
  const auto t = static_cast<std::uint32_t>(std::fabs(x) * static_cast<float>(kFractions));
  std::uint32_t fraction = t % kFractions;
  auto exponent = static_cast<std::int32_t>(t / kFractions);
  if (x < 0) {
    exponent = -exponent;
    if (fraction != 0) fraction = kFractions - 1 - fraction, --exponent;
  }
  if (exponent < -126) return 0;
  const auto mantissa =
      static_cast<std::uint32_t>(interpolated<kWideColumn>(kEx2, fraction) >> (kValueBits - kFractionBits));
  return std::bit_cast<float>((static_cast<std::uint32_t>(exponent + 127) << kFractionBits) + mantissa);
}

float rcp_approx_ftz(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t code = bits >> kFractionBits & 0xFF, sign = bits & 0x80000000U;
  if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return std::copysign(kInf, x);
  // 2^-24 of it: from 2^23 + 1 to 2^24, which is 1.
  const auto mantissa = static_cast<std::uint32_t>(interpolated<kNarrowColumn>(kRcp, bits % kFractions) >>
                                                   (kValueBits - kFractionBits - 1));
  const std::int32_t exponent = 253 - static_cast<std::int32_t>(code);
  if (exponent < (mantissa == 2 * kFractions ? 0 : 1)) return std::bit_cast<float>(sign);
  return std::bit_cast<float>(
      sign | ((static_cast<std::uint32_t>(exponent) << kFractionBits) + mantissa - kFractions));
}

namespace {

// x = 4^half z of a normal x, and the segment fraction of z: twice a table of 64 segments, the even exponents
// first.
struct Quartered {
  std::int32_t half;
  std::uint32_t fraction;  // of 24 bits, the parity first
};
Quartered quartered(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int32_t exponent = static_cast<std::int32_t>(bits >> kFractionBits) - 127;
  return {exponent >> 1, (static_cast<std::uint32_t>(exponent & 1) << kFractionBits) + bits % kFractions};
}
bool counts_as_zero(float x) { return std::fabs(x) < std::numeric_limits<float>::min(); }

}  // namespace

float rsqrt_approx_ftz(float x) {
  if (counts_as_zero(x)) return std::copysign(kInf, x);
  if (!(x > 0)) return std::numeric_limits<float>::quiet_NaN();
  if (std::isinf(x)) return 0;
  const auto [half, fraction] = quartered(x);
  if (fraction == 0) return std::ldexp(1.0f, -half);
  const std::int64_t twice = interpolated<kWideColumn>(kRsqrt, fraction) >> (kValueBits - kFractionBits);
  return std::ldexp(static_cast<float>(twice), -kFractionBits - 1 - half);
}

float sqrt_approx_ftz(float x) {
  if (counts_as_zero(x)) return std::copysign(0.0f, x);
  if (!(x > 0)) return std::numeric_limits<float>::quiet_NaN();
  if (std::isinf(x)) return kInf;
  const auto [half, fraction] = quartered(x);
  const std::int64_t root = interpolated<kWideColumn>(kSqrt, fraction) >> (kValueBits - kFractionBits + 1);
  return std::ldexp(static_cast<float>(root), half - kFractionBits);
}

float div_full(float a, float b) { return a * rcp_approx_ftz(b); }

float exp2_subnormal(float x) {
  if (!(x < -126)) return ex2_approx_ftz(x);
  const float root = ex2_approx_ftz(x * 0.5f);
  return root * root;
}

float cuda_expf(float x) {
  constexpr float kShifter =
      12583039.0f;  // 1.5 * 2^23 + 127: the low bits of `shifted` are the exponent's code
  const float saturated = std::fmin(std::fmax(std::fma(x, 0.0057249800302088261f, 0.5f), 0.0f), 1.0f);
  // FFMA.RM: toward minus infinity; the sum is exact in double.
  const double sum = static_cast<double>(saturated) * 252.0 + 12582913.0;
  const auto shifted = static_cast<float>(std::floor(sum));
  const float n = shifted - kShifter;
  const float f = std::fma(x, 1.925963033500011079e-8f, std::fma(x, 1.4426950216293335f, -n));
  const std::uint32_t scale = std::bit_cast<std::uint32_t>(shifted) << kFractionBits;
  return ex2_approx_ftz(f) * std::bit_cast<float>(scale);
}

float cuda_tanhf(float x) {
  constexpr float kPolynomialEnd = 0.6000000238418579f, kFlat = 9.010913848876953f;
  constexpr float kTwoLog2E = 2.885390043258667f;
  const float magnitude = std::fabs(x);
  if (magnitude >= kFlat) return std::copysign(1.0f, x);
  if (magnitude >= kPolynomialEnd) {
    const float e = ex2_approx_ftz(magnitude * kTwoLog2E);  // e^(2 |x|)
    return std::copysign(std::fma(rcp_approx_ftz(e + 1.0f), -2.0f, 1.0f), x);
  }
  const float square = x * x;
  float r = 0.01573968306183815f;
  for (const float c : {-0.05230396240949631f, 0.13315297663211823f, -0.33332768082618713f, 0.0f})
    r = std::fma(r, square, c);
  return std::fma(r, x, x);
}

std::optional<float> lg2_approx_ftz(float x) {
  if (!(x >= 1) || std::isinf(x)) return std::nullopt;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t exponent = (bits >> kFractionBits) - 127, fraction = bits % kFractions;
  if (exponent == 0 && fraction == 0) return 0.0f;
  std::int64_t value = interpolated<kWideColumn>(kLg2, fraction);
  int behind = kValueBits;
  if (exponent > 0)
    behind = kFractionBits,
    value = (value >> (kValueBits - kFractionBits)) + (std::int64_t{exponent} << kFractionBits);
  const int spare =
      std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - (kFractionBits + 1));
  return std::ldexp(static_cast<float>(value >> spare), spare - behind);
}

std::optional<float> cuda_fast_logf(float x) {
  const std::optional<float> log = lg2_approx_ftz(x);
  if (!log) return std::nullopt;
  return *log * kLn2;
}

float cuda_logf(float x) {
  constexpr std::array kPolynomial = {-0x1.0aa04ep-3f, 0x1.2073ecp-3f,  -0x1.f19b98p-4f,
                                      0x1.1e52aap-3f,  -0x1.55b172p-3f, 0x1.99da16p-3f,
                                      -0x1.fffe44p-3f, 0x1.5554fp-2f,   -0x1p-1f};
  const bool subnormal = x < 0x1p-126f;
  const auto bits = std::bit_cast<std::int32_t>(subnormal ? x * 0x1p23f : x);
  const auto exponent =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(bits - 0x3f2aaaab) & 0xff800000U);
  const float f = std::bit_cast<float>(bits - exponent) - 1.0f;
  const float n = std::fma(static_cast<float>(exponent), 0x1p-23f, subnormal ? -23.0f : 0.0f);
  float r = kPolynomial.front();
  for (std::size_t i = 1; i < kPolynomial.size(); ++i) r = std::fma(r, f, kPolynomial[i]);
  return std::fma(n, kLn2, std::fma(f * r, f, f));
}

}  // namespace assay
