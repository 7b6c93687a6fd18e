// Dot products without any rounding: integer ones, and double ones that a check of O(1) per pair of rows
// proves exact.
//
// A finite value of a format of at most 16 bits is an integer times the format's smallest step:
//   e4m3fn  x = i 2^-9,   |i| <= 448 * 2^9    < 2^17.9   products < 2^35.7: int64 holds 2^27 of them
//   e5m2    x = i 2^-16,  |i| <= 57344 * 2^16 < 2^31.9   products < 2^63.7: int128 holds 2^63
//   f16     x = i 2^-24,  |i| <= 65504 * 2^24 < 2^40     products < 2^80:   int128 holds 2^47
#pragma once

#include <cstdint>
#include <span>

namespace assay {

__extension__ using Int128 = __int128;

/// sum_i a_i b_i, exactly. Shapes a [n], b [n]. Domain: |a_i|, |b_i| < 2^18 and n <= 2^27, so that the sum
/// stays below 2^63; a longer row or a size mismatch is an InputError. Vectorised with run-time dispatch.
std::int64_t dot_int64(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

/// sum_i a_i b_i, exactly. Domain: |a_i| < 2^m_a, |b_i| < 2^m_b with n 2^(m_a + m_b) <= 2^127.
Int128 dot_int128(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

/// sum 2^exponent rounded once to nearest-even (twice only where the result is subnormal).
double round_to_double(Int128 sum, int exponent);

/// What exactness of a double dot depends on, of one row: sum |x_i|, max |x_i|, and lsb, the largest power of
/// two that divides every element (+inf for a row of zeros). A row with Inf or NaN has lsb NaN: nothing is
/// exact.
struct RowGrid {
  double sum_abs = 0;
  double max_abs = 0;
  double lsb = 0;
};
RowGrid row_grid(std::span<const double> row);
RowGrid row_grid(std::span<const float> row);

/// True only if every product and every partial sum of q.k, in any order and with or without fma, is exact in
/// double:
///     sum |q_i| * max |k| < 2^53 lsb(q) lsb(k).
/// Then all of them are integers times lsb(q) lsb(k) of magnitude below 2^53, and q.sum_abs was exact too:
/// had the true sum reached 2^53 lsb(q), so would the rounded one, and max |k| >= lsb(k). Condition besides:
/// that unit is at least 2^-1074 (f32 inputs: 2^-298).
bool double_dot_is_exact(const RowGrid& q, double max_abs_k, double lsb_k);

/// q = high + low, exactly: high on the grid g = 2^(e - 28), 2^e the power of two above max |q|; |low| <= g
/// / 2. high needs 28 bits, and low what is left of the elements' significands (f32: at most 24 bits below g
/// unless the row spans more than 2^28 in magnitude). Check both with double_dot_is_exact(row_grid(slice),
/// ...). Shapes q, high, low [n]. Domain: finite, max |q| < 2^990.
inline constexpr int kRowGridBits = 28;
void split_on_row_grid(std::span<const double> q, std::span<double> high, std::span<double> low);

}  // namespace assay
