// Block formats, each by the rule of its file: `assay manual quantize`.
#include <algorithm>
#include <cmath>

#include "cases/studies/adversary/quantisers.hpp"
#include "reference/formats/block.hpp"

namespace assay::adversary {
namespace {

double signed_extreme(const Group& group) {
  double extreme = 0;
  for (const double* x : group)
    if (std::fabs(*x) > std::fabs(extreme)) extreme = *x;
  return extreme;
}

// An integer holds no NaN and no infinity: 0 * Inf converts to 0, what is beyond the codes saturates.
double converted(double q) { return std::isnan(q) ? 0 : std::clamp(q, -1024.0, 1024.0); }

// 1 / d, straight from the range that `top` codes span, or the quotient itself, by d or by that range.
class Quotient {
 public:
  Quotient(const Problem& p, double d, double top, double range)
      : f32_("f32"),
        how_(d == 0 ? "none" : p.text("code")),
        d_(d),
        top_(top),
        range_(range),
        inverse_(d == 0             ? 0
                 : how_ == "absmax" ? f32_.div(top, range)
                                    : f32_.div(1, d)) {}
  double operator()(double x) const {
    const double multiplied = how_ == "product" ? f32_.mul(x, top_) : x;
    if (how_ == "product" && std::isfinite(multiplied)) return converted(f32_.div(multiplied, range_));
    return converted(how_ == "divide" ? f32_.div(x, d_) : f32_.mul(x, inverse_));
  }

 private:
  Arithmetic f32_;
  std::string how_;
  double d_, top_, range_, inverse_;
};

// The scale in f32, of a range that `top` codes span, and up to scale_ulp numbers on.
double block_scale(const Problem& p, double range, double top, std::int64_t index) {
  const Arithmetic f32("f32");
  const double inverse = f32.div(top, range);
  const bool by_inverse = p.is("scale", "inverse") && range != 0 && std::isfinite(inverse) && inverse != 0;
  const double d = p.is("scale", "reciprocal") ? f32.mul(range, f32.div(1, top))
                   : by_inverse                ? f32.div(1, inverse)
                                               : f32.div(range, top);
  return d == 0 ? 0 : moved_by_ulps(p, d, index);
}

// ggml's q8_0: plain and vector code have ties away or to even.
void q8_0(const Problem& p, Group& group) {
  const double absmax = std::fabs(signed_extreme(group)), d = block_scale(p, absmax, 127, 0);
  const double stored = Arithmetic("f16").round(d);
  const Quotient quotient(p, d, 127, absmax);
  for (double* x : group) {
    const double q = quotient(*x);
    const double code = p.is("round", "nearest_even") ? std::nearbyint(q) : std::round(q);
    *x = (p.is("defect", "truncated") ? std::trunc(q) : code) * stored;
  }
}

// q4_0, q5_0: d = the signed extreme / -offset.
void offset_nibbles(const Problem& p, double offset, Group& group) {
  const Arithmetic f32("f32"), f16("f16");
  const double extreme = signed_extreme(group), d = block_scale(p, extreme, -offset, 0),
               stored = f16.round(d);
  const Quotient quotient(p, d, -offset, extreme);
  for (double* x : group) {
    const double q = quotient(*x);
    const double code = std::clamp(std::trunc(f32.add(q, offset + 0.5)), 0.0, 2 * offset - 1) - offset;
    *x = (p.is("defect", "truncated") ? std::trunc(q) : code) * stored;
  }
}

// q4_1, q5_1: d = (largest - least) / top, the least element beside it.
void minimum_nibbles(const Problem& p, double top, Group& group) {
  const Arithmetic f32("f32"), f16("f16");
  double low = *group[0], high = low;
  for (const double* x : group) low = std::min(low, *x), high = std::max(high, *x);
  const double range = f32.sub(high, low);
  const double d = block_scale(p, range, top, 0);
  const Quotient quotient(p, d, top, range);
  for (double* x : group) {
    const double q = quotient(f32.sub(*x, low));
    const double code = std::clamp(std::trunc(f32.add(q, 0.5)), 0.0, top);
    *x = (p.is("defect", "truncated") ? std::trunc(q) : code) * f16.round(d) + f16.round(low);
  }
}

constexpr double kEntries[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

double nearest_entry(double q) {  // of two at one distance the larger
  double best = kEntries[0];
  for (const double each : kEntries)
    if (std::fabs(each - q) <= std::fabs(best - q)) best = each;
  return best;
}

// Derivation: ggml's GROUP_MAX_EPS, which its own quantiser of iq4_nl compares with: a block below it has the
// scale 0.
constexpr double kLeastExtreme = 1e-15;

void iq4_nl(const Problem& p, Group& group) {
  const Arithmetic f32("f32"), f16("f16");
  const double extreme = signed_extreme(group), d = f32.div(extreme, -127);
  const Quotient quotient(p, d, -127, extreme);
  std::vector<double> entries, products, squares;
  const bool tiny = std::fabs(extreme) < kLeastExtreme;
  for (const double* x : group) {
    const double entry = nearest_entry(quotient(*x)), weight = f32.mul(f32.mul(*x, *x), entry);
    entries.push_back(entry);
    products.push_back(f32.mul(weight, *x)), squares.push_back(f32.mul(weight, entry));
  }
  // The order of both sums is nobody's rule: one after the other, or in lanes.
  const std::string_view order = p.seed() % 3 == 0 ? "seq" : p.seed() % 3 == 1 ? "strided:8" : "tree";
  const double above = ordered_sum(f32, products, order, 0), below = ordered_sum(f32, squares, order, 0);
  const double stored = tiny || !(below > 0) ? 0 : f16.round(f32.div(above, below));
  for (std::size_t i = 0; i < group.size(); ++i) *group[i] = entries[i] * stored;
}

// OCP MX: a shared power of two, from the exponent of absmax (floor), or so large that nothing saturates
// (Mishra et al. 2025).
void microscaled(const Problem& p, std::string_view name, Group& group) {
  const ScalarFormat& element = scalar_format(name == "mxfp4" ? "e2m1" : name == "mxfp8" ? "e4m3fn" : "e5m2");
  const double absmax = absmax_of(p, group);
  int e = absmax > 0 ? std::ilogb(absmax) - std::ilogb(element.max_finite) : -127;
  // ceil: the next power of two of absmax; rceil: only where the largest element would be exceeded; even:
  // where absmax rounds up to the next power of two in the bits of an element.
  if (p.is("exponent", "rceil") && absmax > std::ldexp(element.max_finite, e)) ++e;
  if (p.is("exponent", "ceil") && absmax > std::ldexp(1.0, std::ilogb(absmax))) ++e;
  if (p.is("exponent", "even") && absmax > 0 &&
      absmax >= std::ldexp(2 - std::ldexp(0.5, -element.fraction_bits), std::ilogb(absmax)))
    ++e;
  e = std::clamp(e, -127, 127);
  EncodePolicy policy = policy_of(p);
  policy.rounding = Rounding::nearest_even;
  for (double* x : group) {
    const double code = round_to(element, std::ldexp(*x, -e), policy);
    *x = std::ldexp(p.is("defect", "truncated")
                        ? round_to(element, std::ldexp(*x, -e), {.rounding = Rounding::toward_zero})
                        : code,
                    e);
  }
}

// ggml's own, by the logarithm in f32 or by the exponent's bits.
void mxfp4_ggml(const Problem& p, Group& group) {
  const double absmax = std::fabs(signed_extreme(group));
  const double logarithm = Arithmetic("f32").round(std::log2(absmax));
  const int floor = absmax == 0                   ? -125
                    : p.is("scale", "reciprocal") ? std::ilogb(absmax)
                                                  : static_cast<int>(std::floor(logarithm));
  const int e = std::max(-127, floor - 2);
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (double* x : group) {
    double best = 0;
    for (const double each : kMagnitudes)
      if (std::fabs(each - std::ldexp(std::fabs(*x), -e)) < std::fabs(best - std::ldexp(std::fabs(*x), -e)))
        best = each;
    *x = std::copysign(std::ldexp(best, e), *x);
  }
}

}  // namespace

void quantise_block(const Problem& p, std::string_view name, Group& group) {
  if (name == "q8_0") return q8_0(p, group);
  if (name == "q4_0" || name == "q5_0") return offset_nibbles(p, name == "q4_0" ? 8 : 16, group);
  if (name == "q4_1" || name == "q5_1") return minimum_nibbles(p, name == "q4_1" ? 15 : 31, group);
  if (name == "iq4_nl") return iq4_nl(p, group);
  if (name == "mxfp4_ggml") return mxfp4_ggml(p, group);
  microscaled(p, name, group);
}

void quantise_nvfp4(const Problem& p, Group& all) {
  const Arithmetic f32("f32");
  const ScalarFormat &e2m1 = scalar_format("e2m1"), &e4m3fn = scalar_format("e4m3fn");
  const double largest = absmax_of(p, all);
  const double g = largest == 0                  ? 1
                   : p.is("scale", "divide")     ? f32.div(2688, largest)
                   : p.is("scale", "reciprocal") ? f32.div(1, f32.mul(largest, f32.div(1, 2688)))
                                                 : f32.div(1, f32.div(largest, 2688));
  for (std::size_t first = 0; first < all.size(); first += 16) {
    Group block(all.begin() + static_cast<std::ptrdiff_t>(first),
                all.begin() + static_cast<std::ptrdiff_t>(first + 16));
    const double a = absmax_of(p, block);
    const double ideal = p.is("scale", "inverse") ? f32.mul(g, f32.mul(a, f32.div(1, 6)))
                         : p.seed() % 2 == 0      ? f32.div(f32.mul(a, g), 6)
                                                  : f32.mul(f32.mul(a, f32.div(1, 6)), g);
    const double s = round_to(e4m3fn, ideal), factor = f32.div(1, f32.mul(s, f32.div(1, g)));
    for (double* x : block) {
      const double q = p.is("code", "divide")       ? f32.div(f32.mul(*x, g), s)
                       : p.is("code", "reciprocal") ? f32.mul(*x, factor)
                                                    : f32.mul(*x, f32.div(g, s));
      *x = s == 0 ? 0 : round_to(e2m1, q, policy_of(p)) * s / g;
    }
  }
}

// Of sum x^4, what the rule lets comparisons of a search lose, less what these sums do.
constexpr double kSearchLoss = 0x1p-15 * (1 - 0x1p-10);

// The search begins at the plain step, tries some about it, and keeps what has the smallest error.
void quantise_searched(const Problem& p, std::string_view name, Group& block) {
  const ScaleSearch& search = *format(name).block->search;
  const Arithmetic f32("f32"), f16("f16");
  const auto code = [&](double q) {
    if (!search.entries.empty()) return nearest_entry(q);
    return std::clamp(std::nearbyint(q), static_cast<double>(search.far_code),
                      static_cast<double>(search.top_code));
  };
  const auto size = static_cast<std::size_t>(search.group);
  std::vector<double> steps;
  Draw draw(p.seed());
  const double reach = p.is("code", "divide") ? 0 : p.is("code", "reciprocal") ? 0.1 : 1;
  double largest = 0;
  for (std::size_t first = 0; first < block.size(); first += size) {
    double extreme = 0;
    for (std::size_t i = first; i < first + size; ++i)
      if (std::fabs(*block[i]) > std::fabs(extreme)) extreme = *block[i];
    const auto error = [&](double s) {
      double sum = 0;
      for (std::size_t i = first; i < first + size; ++i) {
        const double x = *block[i], e = f32.sub(x, f32.mul(s, code(s == 0 ? 0 : f32.div(x, s))));
        sum = f32.add(sum, f32.mul(f32.mul(x, x), f32.mul(e, e)));
      }
      return sum;
    };
    const double plain = f32.div(extreme, search.far_code);
    double best = plain, least = error(plain), fourths = 0;
    for (std::size_t i = first; i < first + size; ++i) fourths += std::pow(*block[i], 4);
    // Of those that are no worse than the first, or no worse than comparisons may lose, the farthest, or the
    // best.
    const double worst = least + (p.is("scale", "inverse") ? kSearchLoss * fourths : 0);
    const auto is_farther = [&](double s) { return error(s) <= worst && std::fabs(s) > std::fabs(best); };
    for (int i = 0; i < 40 && reach > 0; ++i) {
      const double s = f32.mul(plain, (draw.coin(4) ? -1 : 1) * (1 + reach * (2 * draw.uniform() - 1)));
      if (p.is("scale", "divide") ? error(s) < least : is_farther(s)) best = s, least = error(s);
    }
    for (double more = 0x1p-4; more > 0x1p-20 && reach > 0 && !p.is("scale", "divide"); more /= 2)
      if (const double s = f32.mul(best, 1 + more); is_farther(s) && std::fabs(s) <= 2 * std::fabs(plain))
        best = s;
    steps.push_back(best);
    largest = std::max(largest, std::fabs(best));
  }
  const double d = f32.div(largest, p.is("zero_scale", "zero") ? search.top_scale : search.top_scale + 1);
  const double stored = f16.round(d);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const double integer = d == 0 ? 0
                                  : std::clamp(std::nearbyint(f32.div(steps[i / size], d)),
                                               static_cast<double>(-search.top_scale - 1),
                                               static_cast<double>(search.top_scale));
    const double step = f32.mul(p.is("code_scale", "exact") ? d : stored, integer);
    *block[i] =
        (step == 0 ? (search.entries.empty() ? 0 : 1) : code(f32.div(*block[i], step))) * stored * integer;
  }
}

}  // namespace assay::adversary
