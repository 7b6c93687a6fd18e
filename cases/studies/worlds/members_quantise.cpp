#include "cases/studies/worlds/members_quantise.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace assay::worlds {
namespace {

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }
// Sums, products and quotients of two f32 in f64 are rounded to f32 as the exact ones are.
double times(double x, double y) { return f32(x * y); }
double over(double x, double y) { return f32(x / y); }

double absmax_of(const std::vector<double>& x) {
  double most = 0;
  for (const double v : x) most = std::max(most, std::fabs(v));
  return most;
}

double narrow(std::string_view format, double x) {
  EncodePolicy policy;
  policy.overflow = Overflow::ieee;
  return format == "f32" ? f32(x) : round_to(scalar_format(format), x, policy);
}

struct Scale {
  double before, stored;
  bool one = false;  // 1 in place of 0: every way to a code divides by it
};

// "scale: absmax / D, absmax times a rounded 1 / D, or 1 / a rounded D / absmax"; "scale_ulp: units in the
// last place that the scale may be off"; "scale_format: the stored scale is rounded to this"; "1 where that
// is 0".
std::vector<Scale> scales(const Quantise& k, double absmax, double d) {
  Set found;
  const bool any = k.scale == "any";
  if (any || k.scale == "divide") join(found, {over(absmax, d)});
  if (any || k.scale == "reciprocal") join(found, {times(absmax, over(1, d))});
  if (any || k.scale == "inverse") join(found, {over(1, over(d, absmax))});
  Set off;
  for (const double s : found) {
    double low = s, high = s;
    join(off, {s});
    for (int i = 0; i < static_cast<int>(k.scale_ulp); ++i) {
      low = static_cast<double>(std::nextafter(static_cast<float>(low), 0.0F));
      high = static_cast<double>(std::nextafter(static_cast<float>(high), HUGE_VALF));
      join(off, {low, high});
    }
  }
  std::vector<Scale> all;
  for (double s : off) {
    const bool one = absmax == 0 || s == 0;
    if (one) s = 1;
    const double stored = narrow(k.scale_format, s);
    if (k.code_scale != "exact") all.push_back({stored, stored, one});
    if (k.code_scale != "stored") all.push_back({s, stored, one});
  }
  return all;
}

// "code: x / scale, times a rounded 1 / scale, or times a rounded D / absmax"; "quotient: rounded to this
// before it becomes a code".
Set quotients(const Quantise& k, double x, const Scale& s, double absmax, double d) {
  const bool any = k.code == "any";
  Set q;
  if (any || k.code == "divide") join(q, {over(x, s.before)});
  if (any || k.code == "reciprocal") join(q, {times(x, over(1, s.before))});
  if (any || k.code == "direct") join(q, {s.one ? x : times(x, over(d, absmax))});
  return each(q, [&](double v) { return Set{narrow(k.quotient, v)}; });
}

// "round: to a code; stochastic: to either neighbour"; "subnormals: codes below the smallest normal number
// ... kept, or 0".
Set codes_of(const Quantise& k, const ScalarFormat& f, double q) {
  if (std::isnan(q)) return {};
  Set codes;
  if (k.stochastic) {
    EncodePolicy low = k.policy;
    low.rounding = Rounding::toward_negative;
    codes = set_of({round_to(f, q, low), f.is_signed ? -round_to(f, -q, low) : round_to(f, q, low)});
    if (f.kind == ScalarKind::integer)
      codes = set_of({std::clamp(std::floor(q), f.integer_min, f.integer_max),
                      std::clamp(std::ceil(q), f.integer_min, f.integer_max)});
  } else {
    codes = {round_to(f, q, k.policy)};
  }
  if (!k.subnormals_zero || f.kind != ScalarKind::floating) return codes;
  return each(codes, [&](double c) { return Set{std::fabs(c) < power_of_two(1 - f.bias) ? 0 : c}; });
}

bool is_tie(double q) { return std::fabs(q - std::trunc(q)) == 0.5; }

double saturated(std::string_view format, double q) { return round_to(scalar_format(format), q, {}); }

// What a rule calls extreme / D, and x times its reciprocal: the manual's words of `scale` and `code`.
std::array<double, 3> ways_to_scale(double extreme, double d) {
  return {over(extreme, d), times(extreme, over(1, d)), over(1, over(d, extreme))};
}
std::array<double, 3> ways_to_quotient(double x, double scale, double extreme, double d) {
  return {times(x, over(1, scale)), over(x, scale), times(x, over(d, extreme))};
}

// "d0 = the signed element of largest magnitude / -127, code of the entry c nearest to x / d0;
// d = sum x^3 c / sum x^2 c^2, 0 where the latter is, as f16". A kernel takes one extreme, one way to
// quotients and one side of ties.
std::vector<Set> least_squares_members(const std::vector<double>& x, double absmax) {
  constexpr double kEntries[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<Set> y(x.size());
  for (const double extreme : {absmax, -absmax}) {
    if (std::ranges::find(x, extreme) == x.end()) continue;
    for (const double scale : ways_to_scale(extreme, -127))
      for (std::size_t way = 0; way < 3; ++way)
        for (const bool up : {false, true})
          for (const std::size_t lanes : {1U, 4U, 32U}) {
            std::vector<double> entries, above(lanes, 0.0), below(lanes, 0.0);
            for (std::size_t i = 0; i < x.size(); ++i) {
              const double q = ways_to_quotient(x[i], scale, extreme, -127)[way];
              double best = kEntries[0];
              for (const double c : kEntries)
                if (up ? std::fabs(c - q) <= std::fabs(best - q) : std::fabs(c - q) < std::fabs(best - q))
                  best = c;
              const double weight = times(times(x[i], x[i]), best);
              above[i % lanes] = f32(above[i % lanes] + times(weight, x[i]));
              below[i % lanes] = f32(below[i % lanes] + times(weight, best));
              entries.push_back(best);
            }
            for (std::size_t half = lanes / 2; half > 0; half /= 2)
              for (std::size_t i = 0; i < half; ++i)
                above[i] = f32(above[i] + above[i + half]), below[i] = f32(below[i] + below[i + half]);
            const double d = below[0] > 0 ? narrow("f16", over(above[0], below[0])) : 0;
            for (std::size_t i = 0; i < x.size(); ++i) join(y[i], {d * entries[i]});
          }
  }
  return y;
}

}  // namespace

std::vector<Set> scaled_members(const Quantise& k, const Format& to, const std::vector<double>& x) {
  const double absmax = absmax_of(x), d = k.divisor != 0 ? k.divisor : to.scale_divisor;
  std::vector<Set> y(x.size());
  for (const Scale& s : scales(k, absmax, d))
    for (std::size_t i = 0; i < x.size(); ++i)
      for (const double q : quotients(k, x[i], s, absmax, d))
        for (const double code : codes_of(k, scalar_format(to.element), q)) join(y[i], {code * s.stored});
  return y;
}

std::vector<Set> block_members(const Quantise& k, std::string_view to, const std::vector<double>& x) {
  std::vector<Set> y(x.size());
  const double absmax = absmax_of(x);
  double most = 0, least = HUGE_VAL, largest = -HUGE_VAL;
  for (const double v : x) {
    if (std::fabs(v) > std::fabs(most)) most = v;
    least = std::min(least, v);
    largest = std::max(largest, v);
  }
  const auto f16 = [](double v) { return narrow("f16", v); };
  const auto codes = [&](std::string_view element, double q) {
    Set found = {saturated(element, q)};
    const ScalarFormat& f = scalar_format(element);
    const double low = round_to(f, q, {.rounding = Rounding::toward_negative}),
                 high = -round_to(f, -q, {.rounding = Rounding::toward_negative});
    if (k.ties == "any" && q - low == high - q) join(found, {low, high});
    return found;
  };
  const bool by_rule = k.ties == "rule" || k.ties == "any";
  const auto rounded_as_said = [&](double q) {
    return k.ties == "even"               ? Set{std::nearbyint(q)}
           : k.ties == "away"             ? Set{std::round(q)}
           : k.ties == "any" && is_tie(q) ? set_of({std::floor(q), std::ceil(q)})
                                          : Set{};
  };
  if (to == "iq4_nl") return least_squares_members(x, absmax);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (to == "q8_0") {
      // "d = absmax / 127, code = x (1 / d) to nearest, halves away from zero, from d in f32; d stored as
      // f16"
      for (const double d : ways_to_scale(absmax, 127))
        for (const double q : ways_to_quotient(x[i], d, absmax, 127)) {
          const bool none = absmax == 0 || d == 0;
          const double code = k.ties == "even" ? std::nearbyint(q) : std::round(q);
          join(y[i], {none || f16(d) == 0 ? 0 : std::clamp(code, -128.0, 127.0) * f16(d)});
          if (k.ties == "any" && !none && is_tie(q)) join(y[i], {std::trunc(q) * f16(d)});
        }
    } else if (to == "q4_0" || to == "q5_0") {
      // "d = the signed element of largest magnitude / -8, code = min(15, trunc(x (1 / d) + 8.5)) from d in
      // f32; d stored as f16"; q5_0: -16, 31 and 16.5
      const double half = to == "q4_0" ? 8 : 16;
      if (over(most, -half) == 0) continue;
      for (const double d : ways_to_scale(most, -half)) {
        const auto number = [&](double code) { return f16(d) == 0 ? 0 : std::min(half - 1, code) * f16(d); };
        Set sums = {f32(x[i] * over(1, d) + half + 0.5)};  // fused
        for (const double q : ways_to_quotient(x[i], d, most, -half)) {
          join(sums, {f32(q + half + 0.5)});
          for (const double code : rounded_as_said(q)) join(y[i], {number(code)});
        }
        for (const double q : sums)
          if (by_rule) join(y[i], {number(std::trunc(q) - half)});
      }
    } else if (to == "q4_1" || to == "q5_1") {
      // "m = least element, d = (largest - m) / 15, code = min(15, trunc((x - m) (1 / d) + 0.5)) in f32; both
      // stored as f16"; q5_1: 31
      const double top = to == "q4_1" ? 15 : 31, range = f32(largest - least);
      if (over(range, top) == 0) continue;
      const double shifted = f32(x[i] - least);
      for (const double d : ways_to_scale(range, top)) {
        const auto number = [&](double code) { return std::min(top, code) * f16(d) + f16(least); };
        Set sums = {f32(shifted * over(1, d) + 0.5)};
        for (const double q : ways_to_quotient(shifted, d, range, top)) {
          join(sums, {f32(q + 0.5)});
          for (const double code : rounded_as_said(q)) join(y[i], {number(code)});
        }
        for (const double q : sums)
          if (by_rule) join(y[i], {number(std::trunc(q))});
      }
    } else if (to == "mxfp4" || to == "mxfp8") {
      // "scale 2^e, e by mx_scale (floor: floor(log2(absmax)) - emax, emax that of the largest element); code
      // of x / 2^e, to nearest even, saturating"
      const int emax = to == "mxfp4" ? 2 : 8;
      const double scale = absmax == 0 ? 1 : power_of_two(std::max(-127, std::ilogb(absmax) - emax));
      for (const double code : codes(to == "mxfp4" ? "e2m1" : "e4m3fn", x[i] / scale))
        join(y[i], {code * scale});
    } else if (to == "int4_g32_bf16") {
      // "scale = bf16 of absmax / 7 of 32 elements, to nearest even (1 where that is 0); code of x / scale,
      // to nearest even, within -7..7"
      for (const double exact : {over(absmax, 7), absmax / 7}) {
        double s = narrow("bf16", exact);
        if (s == 0) s = 1;
        const double q = over(x[i], s);
        join(y[i], {std::clamp(std::nearbyint(q), -7.0, 7.0) * s});
      }
    } else if (to == "nvfp4") {
      // "global g = 2688 / absmax of the tensor, stored as it is; block scale s = e4m3fn(absmax of 16
      // elements g / 6), to nearest even, saturating; code = e2m1(x g / s), 0 where s is 0; number = code s /
      // g"
      const double g = absmax == 0 ? 1 : over(2688, absmax);
      if (!std::isfinite(g)) continue;
      for (const double before :
           {over(times(absmax, g), 6), times(absmax, over(g, 6)), times(times(absmax, g), over(1, 6))}) {
        const double s = saturated("e4m3fn", before);
        if (s == 0) {
          join(y[i], {0});
          continue;
        }
        for (const double q :
             {over(times(x[i], g), s), times(x[i], over(g, s)), times(times(x[i], g), over(1, s))})
          for (const double code : codes("e2m1", q)) join(y[i], {code * s / g});
      }
    }
  }
  return y;
}

}  // namespace assay::worlds
