// The scalar model of one block of every unit: plain integers, one function per Combine. What it computes is
// the definition that everything faster is compared with, so nothing here is clever.
#include "reference/arithmetic/fused_block.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "reference/arithmetic/wide_sum.hpp"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kLeastExponent = -126;                          // of M in units that do not truncate
constexpr int kNoExponent = std::numeric_limits<int>::min();  // a zero's
constexpr int kAccumulatorFractionBits = 23;

// One addend: significand * 2^scale, aligned as if its exponent were `exponent`.
struct Addend {
  Int128 significand = 0;
  int scale = 0;
  int exponent = kNoExponent;
};

Int128 at_quantum_toward_zero(const Addend& t, int quantum) {
  if (t.significand == 0) return 0;  // its scale says nothing
  const int shift = quantum - t.scale;
  if (shift <= 0) return t.significand * (Int128{1} << -shift);
  if (shift > 126) return 0;
  return t.significand / (Int128{1} << shift);
}

Int128 at_quantum_floor(Int128 significand, int scale, int quantum) {
  if (significand == 0) return 0;
  const int shift = quantum - scale;
  if (shift <= 0) return significand * (Int128{1} << -shift);
  if (shift > 126) return significand < 0 ? -1 : 0;
  return significand >> shift;  // arithmetic: toward -inf
}

int largest_exponent(std::span<const Addend> terms, int least = kLeastExponent) {
  int m = least;
  for (const Addend& t : terms) m = std::max(m, t.exponent);
  return m;
}

Int128 truncated_sum(std::span<const Addend> terms, int quantum) {
  Int128 sum = 0;
  for (const Addend& t : terms) sum += at_quantum_toward_zero(t, quantum);
  return sum;
}

// The accumulator as an addend: an f16 keeps f16's emin, everything else f32's.
Addend accumulator_addend(double c, const Precision& f) {
  if (c == 0) return {};
  const int e = std::max(std::ilogb(c), f.emin);
  return {static_cast<Int128>(std::ldexp(c, kAccumulatorFractionBits - e)), e - kAccumulatorFractionBits, e};
}

// What T(F, g, out) needs to know.
struct Truncation {
  int fraction_bits, least_exponent;
  Precision out;
  Rounding rounding;
};

double truncate_block(std::span<const Addend> products, double c, const Truncation& how) {
  if (!std::isfinite(c)) return c;  // a chain that overflowed
  std::vector<Addend> terms(products.begin(), products.end());
  terms.push_back(accumulator_addend(c, how.out));
  const int quantum = largest_exponent(terms, how.least_exponent) - how.fraction_bits;
  const double result =
      round_exact(truncated_sum(terms, quantum), quantum, how.out, how.rounding, OverflowTo::infinity);
  return result == 0 ? 0 : result;  // +0
}

double floor_combine(Int128 sum, int sum_scale, int sum_exponent, double c, bool drop_small_c,
                     int fraction_bits) {
  constexpr int kSumBits = 31;
  const Addend addend = accumulator_addend(c, kPrecisionF32);
  const int e = std::max({sum_exponent, addend.exponent, kLeastExponent});
  const int quantum = e - kSumBits;
  Int128 total = at_quantum_floor(sum, sum_scale, quantum);
  if (!drop_small_c || addend.exponent >= e - fraction_bits - 1) {
    total += at_quantum_floor(addend.significand, addend.scale, e - fraction_bits)
             << (kSumBits - fraction_bits);
  }
  return round_exact(total, quantum, kPrecisionF32, Rounding::nearest_even, OverflowTo::infinity);
}

double floor_block(std::span<const Addend> products, double c, int fraction_bits) {
  const int m = largest_exponent(products);
  return floor_combine(truncated_sum(products, m - fraction_bits), m - fraction_bits, m, c, false,
                       fraction_bits);
}

double floor_halves_block(std::span<const Addend> products, double c, int fraction_bits) {
  std::array<std::vector<Addend>, 2> halves;
  for (std::size_t k = 0; k < products.size(); ++k) halves[k % 2].push_back(products[k]);
  const std::array<int, 2> m = {largest_exponent(halves[0]), largest_exponent(halves[1])};
  const int larger = std::max(m[0], m[1]);
  Int128 sum = 0;
  for (std::size_t h = 0; h < 2; ++h) {
    const int quantum = m[h] - fraction_bits;
    sum += at_quantum_floor(truncated_sum(halves[h], quantum), quantum, larger - fraction_bits);
  }
  return floor_combine(sum, larger - fraction_bits, larger, c, true, fraction_bits);
}

double exact_block(std::span<const Addend> products, double c, const Precision& out, Rounding rounding) {
  WideSum sum;
  for (const Addend& t : products) {
    if (t.significand != 0) sum.add(t.significand, t.scale);
  }
  if (const Addend t = accumulator_addend(c, out); t.significand != 0) sum.add(t.significand, t.scale);
  return sum.rounded(out, rounding);
}

float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float flush_input(float x, const TermFormat& f) {  // to +0
  return std::fabs(x) < static_cast<float>(std::ldexp(1.0, f.emin)) ? 0.0f : x;
}

double pairwise_flush_block(std::span<const float> a, std::span<const float> b, const TermFormat& fa,
                            const TermFormat& fb, int group, double c) {
  const auto product = [&](std::size_t k) {
    return k < a.size() ? flush(flush_input(a[k], fa) * flush_input(b[k], fb)) : 0.0f;
  };
  float sum = flush(product(0) + product(1));
  if (group == 4) sum = flush(sum + flush(product(2) + product(3)));
  const float start = std::fabs(c) < 0x1p-126 ? 0.0f : static_cast<float>(c);
  const float result = flush(start + sum);
  return std::isnan(result) ? kNaN : result;
}

// What infinities and NaN make of the block, or 0 when every term is finite.
double special_value(std::span<const float> a, std::span<const float> b, double c) {
  double sum = std::isfinite(c) ? 0 : c;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double product = static_cast<double>(a[k]) * static_cast<double>(b[k]);
    if (!std::isfinite(product)) sum += product;  // Inf - Inf and NaN become NaN
  }
  return sum;
}

std::vector<Addend> products_of(std::span<const float> a, std::span<const float> b, const TermFormat& fa,
                                const TermFormat& fb) {
  std::vector<Addend> products(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    const Term x = split(a[k], fa);
    const Term y = split(b[k], fb);
    const Int128 significand = Int128{x.significand} * y.significand;
    if (significand == 0) continue;
    const int e = x.exponent + y.exponent;
    products[k] = {significand, e - fa.fraction_bits - fb.fraction_bits, e};
  }
  return products;
}

// mxf4/nvf4: products of 16 elements add exactly at quarter units (e2m1 has one fraction bit at emin = 0).
std::vector<Addend> scaled_groups(std::span<const float> a, std::span<const float> b,
                                  const BlockScales& scales, std::size_t first) {
  constexpr std::size_t kGroup = 16;
  std::vector<Addend> groups;
  for (std::size_t k = 0; k < a.size(); k += kGroup) {
    std::int64_t quarters = 0;
    for (std::size_t i = k; i < std::min(k + kGroup, a.size()); ++i) {
      quarters += static_cast<std::int64_t>(4.0 * static_cast<double>(a[i]) * static_cast<double>(b[i]));
    }
    const std::size_t s = (first + k) / scales.block;
    const Term x = split(scales.a[s], scales.format);
    const Term y = split(scales.b[s], scales.format);
    const Int128 significand = Int128{quarters} * x.significand * y.significand;
    if (significand == 0) continue;
    const int e = x.exponent + y.exponent;
    groups.push_back({significand, e - 2 * scales.format.fraction_bits - 2, e});
  }
  return groups;
}

// Infinities meet where an addition of the hardware would see them: in each half, then with c.
double unpack_split_block(std::span<const float> a, std::span<const float> b, const TermFormat& fa,
                          const TermFormat& fb, double c, Truncation how) {
  how.rounding = how.out == kPrecisionF32 ? Rounding::toward_zero : Rounding::nearest_even;
  double partial = 0;
  for (const std::size_t half : {0U, 1U}) {
    std::vector<float> x, y;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (k % 4 / 2 == half) x.push_back(a[k]), y.push_back(b[k]);
    }
    const double special = special_value(x, y, partial);
    partial = special != 0 ? special : truncate_block(products_of(x, y, fa, fb), partial, how);
  }
  const double sum = round_sum(partial, c, how.out);
  return std::isnan(sum) ? kNaN : sum;
}

}  // namespace

double fused_block(const MatrixUnit& unit, std::span<const float> a, std::span<const float> b,
                   const TermFormat& fa, const TermFormat& fb, const BlockScales& scales, std::size_t first,
                   double c) {
  const Precision out = out_precision(unit);
  if (unit.combine == Combine::pairwise_flush) return pairwise_flush_block(a, b, fa, fb, unit.group, c);
  const Truncation truncation{unit.fraction_bits, unit.least_exponent, out, unit.rounding};
  if (unit.combine == Combine::unpack_split) return unpack_split_block(a, b, fa, fb, c, truncation);
  double special = special_value(a, b, c);
  if (!unit.scales.empty()) {
    const std::size_t last = (first + a.size() - 1) / scales.block;
    for (std::size_t s = first / scales.block; s <= last; ++s) {
      if (!std::isfinite(scales.a[s]) || !std::isfinite(scales.b[s])) special = kNaN;
    }
  }
  if (special != 0) return std::isnan(special) ? kNaN : special;
  if (unit.combine == Combine::group_scaled) {
    static_cast<void>(products_of(a, b, fa, fb));  // refuses values that are not e2m1
    return truncate_block(scaled_groups(a, b, scales, first), c, truncation);
  }
  std::vector<Addend> products = products_of(a, b, fa, fb);
  switch (unit.combine) {
    case Combine::truncate:
      break;
    case Combine::truncate_scaled: {
      const std::size_t s = first / scales.block;
      const int e = std::ilogb(scales.a[s]) + std::ilogb(scales.b[s]);
      for (Addend& t : products) {
        if (t.significand == 0) continue;
        t.scale += e;
        t.exponent += e;
      }
      break;
    }
    case Combine::exact:
      return exact_block(products, c, out, unit.rounding);
    case Combine::floor:
      for (std::size_t k = 0; k < products.size(); ++k) {
        const double product = static_cast<double>(a[k]) * static_cast<double>(b[k]);
        if (std::fabs(product) >= 0x1p128) special += std::copysign(kInf, product);
      }
      if (special != 0) return std::isnan(special) ? kNaN : special;
      return floor_block(products, c, unit.fraction_bits);
    case Combine::floor_halves:
      return floor_halves_block(products, c, unit.fraction_bits);
    default:
      break;
  }
  return truncate_block(products, c, truncation);
}

}  // namespace assay
