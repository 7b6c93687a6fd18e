// The 16 entries that codes of iq4_nl and iq4_xs stand for, and the code of a quotient.
#pragma once

#include <array>

#include "reference/formats/scalar.hpp"

namespace assay::blocks {

inline constexpr std::array<float, 16> kIq4Codebook = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                       1,    13,   25,  38,  53,  69,  89,  113};

// To nearest, half-way to the larger entry, or toward zero or negative.
template <typename Real>
unsigned iq4_code(Real x, Rounding rounding) {
  if (!(x > kIq4Codebook.front())) return 0;
  if (x >= kIq4Codebook.back()) return 15;
  unsigned above = 1;
  while (kIq4Codebook[above] <= x) ++above;
  const Real below = kIq4Codebook[above - 1];
  if (rounding == Rounding::toward_zero) return x < 0 && x != below ? above : above - 1;
  if (rounding == Rounding::toward_negative) return above - 1;
  return x - below < kIq4Codebook[above] - x ? above - 1 : above;
}

}  // namespace assay::blocks
