// What mutated sources share: which mutant is on, and the narrow sums that some of them make. One mutant is
// chosen per process, before anything of the mutated library is initialised, so that tables made once are
// made by it too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace assay_mutants {

struct State {
  int chosen = 0;          // 0: none, the correct counterpart
  bool recording = false;  // remember which mutants a run reaches
};
extern State state;
void came_by(int first, int count);

inline bool in(int first, int count) {
  if (__builtin_expect(state.recording, 0)) came_by(first, count);
  return static_cast<unsigned>(state.chosen - first) < static_cast<unsigned>(count);
}
inline bool is(int id) { return state.chosen == id; }

// x rounded to `bits` significant bits, to nearest even or towards zero; subnormals below 2^lowest.
inline double narrowed(double x, int bits, int lowest, bool truncate) {
  if (!(std::fabs(x) < 1e300) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), lowest);
  const double steps = std::ldexp(x, bits - 1 - exponent);
  return std::ldexp(truncate ? std::trunc(steps) : std::nearbyint(steps), exponent - bits + 1);
}
// The K-th narrowing of the generator's list: of precision (bf16, f16, the 14 bits of an FP8 accumulator, two
// bf16 terms, a fast approximation), then NaN lost, then of range (clipped, flushed); then other widths.
template <int K, class T>
T narrow(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto bits = [&](int n, int lowest, bool truncate) {
      return static_cast<T>(narrowed(static_cast<double>(x), n, lowest, truncate));
    };
    if constexpr (K == 0) return bits(8, -126, false);
    if constexpr (K == 1) return bits(11, -14, false);
    if constexpr (K == 2) return bits(14, -126, true);
    if constexpr (K == 3) return bits(17, -126, false);
    if constexpr (K == 4) return bits(20, -126, false);
    if constexpr (K == 5) return x != x ? T(0) : x;
    if constexpr (K == 6) return x > T(65504) ? T(65504) : x < T(-65504) ? T(-65504) : x;
    if constexpr (K == 7) return std::fabs(x) < T(0x1p-24) ? T(0) : x;
    if constexpr (K == 8) return bits(9, -126, false);
    if constexpr (K == 9) return bits(12, -126, false);
    if constexpr (K == 10) return bits(13, -126, true);
    if constexpr (K == 11) return bits(16, -126, false);
    if constexpr (K == 12) return bits(19, -126, false);
  }
  return x;
}
template <int K, class T>
T narrow_one(int id, T x) {
  if (state.chosen == id) return narrow<K>(x);
  if (__builtin_expect(state.recording, 0)) {
    const T y = narrow<K>(x);
    if (!(y == x) && !(y != y && x != x)) came_by(id, 1);
  }
  return x;
}
// The value of an expression with the mutants first, first + 1, ... in the order of the narrowings, from one
// of them on. A run reaches those alone that would change the value.
template <int kCount, int kFrom, class T>
T narrowed(int first, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    if (static_cast<unsigned>(state.chosen - first) < unsigned{kCount} || state.recording)
      return [&]<int... K>(std::integer_sequence<int, K...>) {
        T y = x;
        ((y = state.recording || state.chosen == first + K ? narrow_one<kFrom + K>(first + K, x) : y), ...);
        return y;
      }(std::make_integer_sequence<int, kCount>{});
  }
  return x;
}
// x moved to a number of this many significant bits (0: to an integer) in a direction: towards zero, away
// from it, down, up.
template <int kDirection, class T>
T directed(T x, int bits) {
  if (!(std::fabs(x) < T(1e30)) || x == 0) return x;
  const double scale = bits == 0 ? 1.0 : std::ldexp(1.0, bits - 1 - std::ilogb(x));
  const double steps = static_cast<double>(x) * scale;
  const double moved = kDirection == 0   ? std::trunc(steps)
                       : kDirection == 1 ? std::copysign(std::ceil(std::fabs(steps)), steps)
                       : kDirection == 2 ? std::floor(steps)
                                         : std::ceil(steps);
  return static_cast<T>(moved / scale);
}
// What write_row is given: the row moved if it is written in this format.
template <int kDirection>
const float* directed_row(std::string_view format, std::string_view dtype, const float* values,
                          std::int64_t count) {
  static thread_local std::vector<float> moved;
  if (dtype != format) return values;
  moved.assign(values, values + count);
  for (float& x : moved) x = directed<kDirection>(x, format == "f16" ? 11 : 8);
  return moved.data();
}
// The last bits of a row differ from one call to the next, as those of a sum by atomics do.
inline const float* unsteady_row(const float* values, std::int64_t count) {
  static thread_local std::vector<float> moved;
  static int calls = 0;
  moved.assign(values, values + count);
  if (++calls % 3 == 0)
    for (float& x : moved) x = std::nextafter(x, 1e30F);
  return moved.data();
}
template <int kBits, class T, class U>
T integer_sum(T left, U right) {
  if constexpr (std::is_integral_v<T>) {
    using Narrow = std::conditional_t<kBits == 8, std::int8_t, std::int16_t>;
    return static_cast<T>(static_cast<Narrow>(left + right));
  } else {
    return left + right;
  }
}
// Only the last addend is kept.
template <class T, class U>
T last([[maybe_unused]] T left, U right) {
  if constexpr (std::is_pointer_v<T>)
    return left + right;
  else
    return static_cast<T>(right);
}
}  // namespace assay_mutants
