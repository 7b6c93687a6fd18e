// A machine's arithmetic, every operation rounded once: what the adversary's kernels are written in. It
// shares the rounding of a number with the reference (reference/arithmetic/rounding.hpp) and nothing with the
// derivations of the limits.
//
// Numbers are doubles that hold numbers of the type. f32: one f64 operation and a rounding to f32 is the f32
// operation (53 >= 2 * 24 + 2; Figueroa 1995), a fused one is fmaf. f16 and bf16: products are exact in f64,
// sums are rounded once from an exact TwoSum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "reference/arithmetic/rounding.hpp"
#include "reference/mix.hpp"

namespace assay::adversary {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(mix(seed)) {}
  std::uint64_t bits() { return next_mixed(state_); }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
  }
  bool coin(int one_in = 2) { return below(one_in) == 0; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double gaussian() {  // the sum of twelve uniforms: a search needs no tails
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

class Arithmetic {
 public:
  // f64, f32, f16 or bf16. flush: subnormal operands and results become zero; how: "operands" or "results"
  // alone.
  explicit Arithmetic(std::string_view type, bool flush = false, std::string_view how = "")
      : precision_(type == "f16"    ? kPrecisionF16
                   : type == "bf16" ? kPrecisionBf16
                   : type == "f64"  ? kPrecisionF64
                                    : kPrecisionF32),
        flush_in_(flush && how != "results"),
        flush_out_(flush && how != "operands") {}

  double unit() const { return unit_roundoff(precision_); }
  double least_normal() const { return power_of_two(precision_.emin); }
  double largest() const { return largest_finite(precision_); }

  double read(double x) const { return flushed(x, flush_in_); }
  double round(double x) const { return give(nearest(x)); }
  double add(double a, double b) const {
    a = read(a), b = read(b);
    return give(narrow() ? round_sum(a, b, precision_) : nearest(a + b));
  }
  double sub(double a, double b) const { return add(a, -b); }
  double mul(double a, double b) const { return round(read(a) * read(b)); }
  double div(double a, double b) const { return round(read(a) / read(b)); }
  double sqrt(double a) const { return round(std::sqrt(read(a))); }
  double fma(double a, double b, double c) const {
    a = read(a), b = read(b), c = read(c);
    if (precision_.p == 53) return std::fma(a, b, c);
    if (precision_.p == 24)
      return give(static_cast<double>(
          std::fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))));
    return give(round_sum(a * b, c, precision_));
  }
  // s + a b, in one rounding or two.
  double accumulate(double s, double a, double b, bool fused) const {
    return fused ? fma(a, b, s) : add(s, mul(a, b));
  }

  // The number of the type that lies farthest from `exact` in the direction `side` (+1, -1; 0: the nearest)
  // and still within `ulps` units in the last place of it: what a library function of that accuracy may
  // return. The unit of a subnormal result is the step there is; what is subnormal is flushed afterwards.
  double within(double exact, double ulps, int side) const {
    const double plain = round(exact);
    if (side == 0 || exact == 0 || !std::isfinite(exact) || ulps <= 0.5) return plain;
    const double step = std::ldexp(1.0, std::max(std::ilogb(exact), precision_.emin) - precision_.p + 1);
    const double reach = ulps * step * (1 - 0x1p-20);
    double best = nearest(exact + side * reach);
    if (std::fabs(best - exact) > reach) best = nearest(exact + side * (reach - step / 2));
    return std::fabs(best - exact) <= reach && std::isfinite(best) ? give(best) : plain;
  }

 private:
  double flushed(double x, bool flush) const {
    return flush && std::fabs(x) < least_normal() ? std::copysign(0.0, x) : x;
  }
  double give(double x) const { return flushed(x, flush_out_); }
  bool narrow() const { return precision_.p < 24; }
  double nearest(double x) const {
    if (precision_.p == 53) return x;
    if (precision_.p == 24) return round_f32(x);
    return precision_.p == 11 ? round_f16(x) : round_bf16(x);
  }
  Precision precision_;
  bool flush_in_, flush_out_;
};

// In which direction the errors of functions go. push: up for the target element and down for all others, or
// the reverse.
class Sides {
 public:
  Sides(std::string_view word, std::uint64_t seed, std::int64_t target)
      : word_(word), seed_(seed), target_(target) {}
  int of(std::int64_t element) const {
    if (word_ == "up") return 1;
    if (word_ == "down") return -1;
    if (word_ == "push") return element == target_ ? 1 : -1;
    if (word_ == "pull") return element == target_ ? -1 : 1;
    if (word_ == "random") return (mix(seed_ ^ mix(static_cast<std::uint64_t>(element))) & 1) != 0 ? 1 : -1;
    return 0;
  }

 private:
  std::string_view word_;
  std::uint64_t seed_;
  std::int64_t target_;
};
inline constexpr std::string_view kSides = "none|up|down|push|pull|random";

}  // namespace assay::adversary
