// The randomised Walsh-Hadamard rotation: y = H D x / sqrt(n) and its inverse x = D H y / sqrt(n), with H the
// n-point Sylvester matrix, H[i][j] = (-1)^popcount(i & j), and D a diagonal of signs, packed: bit j set
// means -1 at j.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace assay {

// x <- H x, n = x.size() a power of two. Sums and differences only: exact while they are representable.
template <typename Real>
constexpr void hadamard(std::span<Real> x) {
  for (std::size_t half = 1; half < x.size(); half *= 2) {
    for (std::size_t block = 0; block < x.size(); block += 2 * half) {
      for (std::size_t i = block; i < block + half; ++i) {
        const Real sum = x[i] + x[i + half];
        x[i + half] = x[i] - x[i + half];
        x[i] = sum;
      }
    }
  }
}

// x <- D x; the sign of element j is bit j % 32 of word j / 32.
template <typename Real>
constexpr void apply_signs(std::span<Real> x, std::span<const std::uint32_t> signs) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    if ((signs[j / 32] >> (j % 32) & 1U) != 0) x[j] = -x[j];
  }
}

constexpr std::uint32_t pack_signs(std::span<const int, 32> signs) {
  std::uint32_t mask = 0;
  for (std::size_t j = 0; j < signs.size(); ++j) mask |= (signs[j] < 0 ? 1U : 0U) << j;
  return mask;
}

inline constexpr std::array<int, 32> kTq3SignList = {+1, -1, +1, +1, -1, -1, +1, -1, +1, +1, -1,
                                                     +1, -1, +1, -1, -1, +1, -1, -1, +1, +1, -1,
                                                     +1, -1, -1, +1, +1, +1, -1, -1, +1, -1};
inline constexpr std::uint32_t kTq3Signs = pack_signs(kTq3SignList);
static_assert(kTq3Signs == 0xB1A6D4B2U, "0xAA6CD4B2, which shipped in its place, is not these signs");

}  // namespace assay
