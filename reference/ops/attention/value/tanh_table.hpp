// tanh(n / 64) for n = 0 .. 1408 as pairs of doubles, and 1 - tanh^2, computed once from the double-double
// exponential.
#pragma once

namespace assay {

inline constexpr int kTanhSteps = 22 * 64;
// |error of soft_cap| <= kCapError * softcap, beside the error of its argument; see tanh-inl.hpp.
inline constexpr double kCapError = 0.1 * 0x1p-53;

struct TanhTable {
  double high[kTanhSteps + 1], low[kTanhSteps + 1], one_minus_square[kTanhSteps + 1];
};

const TanhTable& tanh_table();

}  // namespace assay
