// What a quantiser to iq4_nl may leave behind: in a block, m is an element of largest magnitude, either sign
// where both have it, and u = 2^-24.
//   c_i  the entry nearest to q_i = -127 x_i / m
//   d    = N / D as f16, N = sum x_i^3 c_i, D = sum x_i^2 c_i^2; 0 where D is 0
//   value = d c_i
//
// A kernel's quotient is q (1 + e), |e| <= (4 + 2 scale_ulp) u (admissible.hpp), so that c_i is one of few
// entries, each by itself. Of all choices together d is least and largest at an end that is found exactly:
// N / D <= t for every choice if and only if sum max over c of (x^3 c - t x^2 c^2) <= 0, and a t that some
// choice reaches is raised to it until none is larger (Dinkelbach 1967). Terms are rounded three times and
// added 31 times in any order, and the quotient once:
//   |d' - N / D| <= 34 u sum |x^3 c| / D + (35 + 2 scale_ulp) u |N / D|, and u^2 of both
// which counts 2 u of each more here. Rounding to f16 is monotone, so d' lies between the rounded ends. Of x
// near its own extreme no term underflows where d is not 0 in f16: |m| > 127 2^-25, |m|^3 > 2^-55, and 2^-149
// of any other term is below 2^-90 of N. An f16 that overflows is claimed by no one.
//
// Values that are within a radius of these (requantize): |m| lies between the largest |x| - r and |x| + r, q
// between its four ends, and a term x^3 c - t x^2 c^2 is largest at an end of x or where its derivative is 0.
#include <algorithm>
#include <array>
#include <cmath>

#include "reference/arithmetic/rounding.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/formats/blocks/iq4_codebook.hpp"
#include "reference/ops/admissible.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;

struct Element {
  double low, high;      // x
  unsigned first, last;  // its codes
};
struct Range {
  double low, high;
};

// The largest of sign * N / D over every choice.
double farthest(const std::vector<Element>& block, double sign) {
  double best = -HUGE_VAL;
  for (double t = 0;;) {
    double above = 0, below = 0;
    for (const Element& e : block) {
      double most = -HUGE_VAL, n = 0, d = 0;
      for (unsigned code = e.first; code <= e.last; ++code) {
        const double c = blocks::kIq4Codebook[code];
        for (const double x : {e.low, e.high, sign * t * c * (2.0 / 3), 0.0}) {
          if (x < e.low || x > e.high) continue;
          const double square = x * x, term = sign * square * x * c - t * square * c * c;
          if (term > most) most = term, n = sign * square * x * c, d = square * c * c;
        }
      }
      above += n, below += d;
    }
    if (!(below > 0)) return std::max(best, 0.0);
    const double next = above / below;
    if (!(next > best)) return best;
    best = t = next;
  }
}

// The scales that a kernel may store for these codes.
Range scales_of(const std::vector<Element>& block, double scale_ulp) {
  double sizes = 0, below = 0;  // sum |x^3 c| at most, D at least
  for (const Element& e : block) {
    const double most = std::max(std::fabs(e.low), std::fabs(e.high));
    const double least = e.low <= 0 && e.high >= 0 ? 0 : std::min(std::fabs(e.low), std::fabs(e.high));
    double far = 0, near = HUGE_VAL;
    for (unsigned code = e.first; code <= e.last; ++code) {
      const double c = std::fabs(blocks::kIq4Codebook[code]);
      far = std::max(far, c), near = std::min(near, c);
    }
    sizes += most * most * most * far, below += least * least * near * near;
  }
  if (!(below > 0)) return sizes > 0 ? Range{-kInfinity, kInfinity} : Range{0, 0};
  const double low = -farthest(block, -1), high = farthest(block, 1);
  const double roundings =
      rule(Rule::block_move,
           36 * sizes / below + (37 + 2 * scale_ulp) * std::max(std::fabs(low), std::fabs(high))) *
      kUnit32;
  return {round_f16(low - roundings), round_f16(high + roundings)};
}

}  // namespace

void limit_least_squares(std::span<const float> values, std::span<const double> radius, Rounding rounding,
                         double scale_ulp, std::span<const double> stored, std::span<double> limit) {
  constexpr std::size_t kElements = 32;
  const double moved = rule(Rule::block_move, (4 + 2 * scale_ulp) * kUnit32);
  std::ranges::fill(limit, 0.0);
  for (std::size_t first = 0; first < values.size(); first += kElements) {
    std::array<double, kElements> r{};
    if (!radius.empty())
      std::copy_n(radius.begin() + static_cast<std::ptrdiff_t>(first), kElements, r.begin());
    const auto x = values.subspan(first, kElements);
    double least = 0, most = 0;  // |m|
    for (std::size_t i = 0; i < kElements; ++i) {
      const double size = std::fabs(static_cast<double>(x[i]));
      least = std::max(least, size - r[i]), most = std::max(most, size + r[i]);
    }
    if (most == 0) continue;
    for (const double sign : {-1.0, 1.0}) {
      bool has_extreme = false;
      for (std::size_t i = 0; i < kElements; ++i) has_extreme |= sign * x[i] + r[i] >= least;
      if (!has_extreme) continue;
      std::vector<Element> block(kElements);
      for (std::size_t i = 0; i < kElements; ++i) {
        Element& e = block[i];
        e = {x[i] - r[i], x[i] + r[i], 15, 0};
        for (const double end : {e.low, e.high})
          for (const double m : {least, most})
            for (const double off : {1 - moved, 1 + moved}) {
              const unsigned code = blocks::iq4_code(-127 * sign * end / m * off, rounding);
              e.first = std::min(e.first, code), e.last = std::max(e.last, code);
            }
      }
      const Range d = scales_of(block, scale_ulp);
      for (std::size_t i = 0; i < kElements; ++i)
        for (unsigned code = block[i].first; code <= block[i].last; ++code)
          for (const double scale : {d.low, d.high}) {
            const double far = std::fabs(scale * blocks::kIq4Codebook[code] - stored[first + i]);
            limit[first + i] = std::isnan(far) ? kInfinity : std::max(limit[first + i], far);
          }
    }
  }
}

}  // namespace assay
