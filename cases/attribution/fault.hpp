// One fault in a computation: at one of its numbered nodes (the sum of the weights, the rescale of the
// accumulator) something else is computed than should be. A model (models.hpp) asks the fault at every node.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace assay::attribution {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a node computes in place of its result r of a and b.
enum class Wrong : std::uint8_t {
  none,
  narrow,  // r to nearest in so many bits (Fault::bits); in f16 with its subnormals
  f16,
  cut,       // towards zero, as an FP8 unit's accumulator keeps it
  nan_lost,  // 0 where r is NaN
  clipped,   // to f16's range
  flushed,   // 0 where |r| < 2^-24
  zero,
  left,   // a alone
  right,  // b alone
  sum,
  difference,
  product,
  quotient,
  negated,
  more,  // 1.01 r, r / 1.01, 2 r, r / 2: constants that are off
  less,
  twice,
  half,
  first_lost,  // in a loop: the first, the last element is left out
  last_lost,
  other_function,  // 2^x for e^x and its like, the minimum for the maximum
  minus_one,       // expm1, log1p
  identity,        // of a function: its argument
  stored_down,     // of what is stored: rounded down, up, towards zero, away from it
  stored_up,
  stored_to_zero,
  stored_away,
  plus_one,  // an index or a start that is off
  less_one,
  from_one,  // in a loop: it starts at 1; every second addend is left out
  every_second_lost,
  uncalled,   // what the case does not have is done
  held_up,    // an exponential whose argument is no less than -Fault::bits
  dropped,    // ... that is 0 below it
  elsewhere,  // another row, head or sequence is read: Fault::lane
  low_logit,  // hidden keys have the logit -Fault::bits
  count
};

// Which row, head or sequence is read in place of number i: of `count` of them, of which i should be `right`.
enum class Source : std::uint8_t { first, before, after, modulo, clamped, halved, of_two, of_four, count };
inline std::int64_t source(Source s, std::int64_t i, std::int64_t right, std::int64_t count) {
  switch (s) {
    case Source::first:
      return 0;
    case Source::before:
      return std::max<std::int64_t>(0, right - 1);
    case Source::after:
      return std::min(count - 1, right + 1);
    case Source::modulo:
      return i % count;
    case Source::clamped:
      return std::min(count - 1, i);
    case Source::halved:
      return std::min(count - 1, i / 2);
    case Source::of_two:
      return right / 2 * 2;
    case Source::of_four:
      return right / 4 * 4;
    case Source::count:
      break;
  }
  return right;
}

// Of a loop that adds in `kLanes` independent sums, as a vector unit does: which of its addends the fault is
// in.
enum class Where : std::uint8_t {
  whole,       // one running sum
  lanes,       // each of the independent sums
  full_lanes,  // ... as long as a vector is full; behind the last full one
  tail,
  one_lane,    // what a single one of them adds
  other_lane,  // one is added in place of another
};
inline constexpr int kLanes = 8;

// x rounded to `bits` significant bits, to nearest even or towards zero; subnormals below 2^lowest.
inline double in_bits(double x, int bits, int lowest, bool truncate) {
  if (!(std::fabs(x) < 1e300) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), lowest);
  const double steps = std::ldexp(x, bits - 1 - exponent);
  return std::ldexp(truncate ? std::trunc(steps) : std::nearbyint(steps), exponent - bits + 1);
}

// x moved to a number of so many bits in a direction.
inline double directed(double x, int bits, Wrong how) {
  if (!std::isfinite(x) || x == 0) return x;
  const double unit = std::ldexp(1.0, std::ilogb(x) + 1 - bits), steps = x / unit;
  const bool up = how == Wrong::stored_up || (how == Wrong::stored_away) == (x > 0);
  if (how == Wrong::stored_down) return std::floor(steps) * unit;
  return (up ? std::ceil(steps) : std::floor(steps)) * unit;
}

struct Fault {
  int node = -1;
  Wrong wrong = Wrong::none;
  Where where = Where::whole;
  int lane = 0, other = 0;
  int bits = 0;  // of narrow and cut; of held_up, dropped and low_logit a number

  bool at(int n) const { return n == node; }

  // What f32 holds: a fault in 20 bits rounds what has been rounded to 24, and where that lies half way every
  // sixteenth number is another.
  static double held(double r) { return static_cast<float>(r); }
  // Beyond its largest number, of a sum whose order nobody knows.
  static double ranged(double r) { return std::fabs(r) < 0x1.ffffffp127 ? r : r * kInfinity; }
  double add(int n, double a, double b) const { return held(at(n) ? altered(a + b, a, b) : a + b); }
  double subtract(int n, double a, double b) const { return held(at(n) ? altered(a - b, a, b) : a - b); }
  double multiply(int n, double a, double b) const { return held(at(n) ? altered(a * b, a, b) : a * b); }
  double divide(int n, double a, double b) const { return held(at(n) ? altered(a / b, a, b) : a / b); }
  double larger(int n, double a, double b) const {  // as std::max: a NaN in b is passed over
    const double r = a < b ? b : a;
    if (at(n) && wrong == Wrong::other_function) return a < b ? a : b;
    return at(n) ? held(altered(r, a, b)) : r;
  }
  // A number that is read.
  double value(int n, double r) const { return at(n) ? held(altered(r)) : r; }
  double exponential(int n, double x) const {
    if (!at(n)) return held(std::exp(x));
    if (wrong == Wrong::other_function) return held(std::exp2(x));
    if (wrong == Wrong::minus_one) return held(std::expm1(x));
    if (wrong == Wrong::dropped) return x < -bits ? 0 : held(std::exp(x));
    if (wrong == Wrong::held_up) return held(std::exp(std::max(x, -static_cast<double>(bits))));
    return held(altered(std::exp(x), x));
  }
  double logarithm(int n, double x) const {
    if (!at(n)) return held(std::log(x));
    if (wrong == Wrong::other_function) return held(std::log2(x));
    if (wrong == Wrong::minus_one) return held(std::log1p(x));
    return held(altered(std::log(x), x));
  }
  double tangent(int n, double x) const {
    if (!at(n)) return held(std::tanh(x));
    if (wrong == Wrong::other_function) return held(std::tan(x));
    return held(altered(std::tanh(x), x));
  }
  double root(int n, double x) const {
    if (!at(n)) return held(std::sqrt(x));
    if (wrong == Wrong::other_function) return held(std::cbrt(x));
    return held(altered(std::sqrt(x), x));
  }

  // Of one operand: no other operation can stand in its place.
  double altered(double r) const {
    return wrong >= Wrong::left && wrong <= Wrong::quotient ? r : altered(r, r, r);
  }
  double altered(double r, double x) const { return wrong == Wrong::identity ? x : altered(r); }
  double altered(double r, double a, double b) const {
    switch (wrong) {
      case Wrong::narrow:
        return in_bits(held(r), bits, -126, false);
      case Wrong::f16:
        return in_bits(held(r), 11, -14, false);
      case Wrong::cut:
        return in_bits(held(r), bits, -126, true);
      case Wrong::nan_lost:
        return std::isnan(r) ? 0 : r;
      case Wrong::clipped:
        return std::isnan(r) ? r : std::clamp(r, -65504.0, 65504.0);
      case Wrong::flushed:
        return std::fabs(r) < 0x1p-24 ? 0 : r;
      case Wrong::zero:
        return 0;
      case Wrong::left:
      case Wrong::identity:
        return a;
      case Wrong::right:
        return b;
      case Wrong::sum:
        return a + b;
      case Wrong::difference:
        return a - b;
      case Wrong::product:
        return a * b;
      case Wrong::quotient:
        return a / b;
      case Wrong::negated:
        return -r;
      case Wrong::more:
        return 1.01 * r;
      case Wrong::less:
        return r / 1.01;
      case Wrong::twice:
        return 2 * r;
      case Wrong::half:
        return r / 2;
      case Wrong::plus_one:
        return r + 1;
      case Wrong::less_one:
        return r - 1;
      default:
        return r;
    }
  }
};

// The largest of numbers, at a node.
template <class Numbers>
double largest(const Fault& f, int node, const Numbers& numbers) {
  double top = -kInfinity;
  const std::size_t n = numbers.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (f.at(node) &&
        ((f.wrong == Wrong::first_lost && i == 0) || (f.wrong == Wrong::last_lost && i + 1 == n) ||
         (f.wrong == Wrong::every_second_lost && i % 2 == 1)))
      continue;
    if (f.at(node) && f.wrong == Wrong::other_function && i > 0)
      top = numbers[i] < top ? numbers[i] : top;
    else
      top = numbers[i] > top ? numbers[i] : top;
  }
  return f.value(node, top);
}

// A loop that adds `count` numbers, at a node.
class Sum {
 public:
  Sum(const Fault& f, int node, std::int64_t count) : f_(f), at_(f.at(node)), count_(count) {
    if (at_ && f.wrong == Wrong::from_one) lane_[0] = 1;
  }
  void add(double x) {
    const std::int64_t i = added_++;
    if (!at_) {
      lane_[0] = Fault::ranged(lane_[0] + x);
      return;
    }
    double& lane = lane_[f_.where == Where::whole ? 0 : i % kLanes];
    const bool full = i < count_ - count_ % kLanes;
    const bool here = f_.where == Where::full_lanes ? full
                      : f_.where == Where::tail     ? !full
                      : f_.where == Where::one_lane ? i % kLanes == f_.lane
                                                    : f_.where != Where::other_lane;
    if (!here)
      lane += x;
    else if (!((f_.wrong == Wrong::first_lost && i == 0) ||
               (f_.wrong == Wrong::last_lost && i + 1 == count_) ||
               (f_.wrong == Wrong::every_second_lost && i % 2 == 1)))
      lane = f_.altered(lane + x, lane, x);
  }
  double total() const {
    double sum = 0;
    for (int i = 0; i < kLanes; ++i)
      sum += lane_[at_ && f_.where == Where::other_lane && i == f_.lane ? f_.other : i];
    return sum;
  }

 private:
  const Fault& f_;
  bool at_;
  std::int64_t count_, added_ = 0;
  double lane_[kLanes] = {};
};

}  // namespace assay::attribution
