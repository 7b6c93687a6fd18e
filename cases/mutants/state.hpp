// What mutated sources share: which mutant is on, and the narrow sums that some of them make. One mutant is
// chosen per process, before anything of the mutated library is initialised, so that tables made once are
// made by it too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace assay_mutants {

struct State {
  int chosen = 0;          // 0: none, the correct twin
  bool recording = false;  // remember which mutants a run comes by
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
template <class T, class U>
T sum(T left, U right, int bits, int lowest, bool truncate, int integer_bits) {
  const T exact = static_cast<T>(left + right);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(narrowed(static_cast<double>(exact), bits, lowest, truncate));
  } else if constexpr (std::is_integral_v<T>) {
    if (integer_bits == 8) return static_cast<T>(static_cast<std::int8_t>(exact));
    if (integer_bits == 16) return static_cast<T>(static_cast<std::int16_t>(exact));
    return static_cast<T>(exact & ~T{1});
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
template <class T, class U>
T sum_f16(T left, U right) {
  return sum(left, right, 11, -14, false, 16);
}
template <class T, class U>
T sum_bf16(T left, U right) {
  return sum(left, right, 8, -126, false, 8);
}
template <class T, class U>
T sum_14_bits(T left, U right) {  // what a tensor core's FP8 accumulator keeps
  return sum(left, right, 14, -126, true, 0);
}

}  // namespace assay_mutants
