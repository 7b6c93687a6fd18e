// What layernorm and rmsnorm share: reading a row, its specials, and the contract keys of a reduction with rsqrt.
#pragma once

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "reference/ops/op_io.hpp"

namespace assay {

inline constexpr std::array kNormKeys = {
    ContractKey{"acc", ContractValue::accumulator, "f32", "", "the type of every intermediate result"},
    ContractKey{"order", ContractValue::order, "any", "", "in which sums over a row are formed"},
    ContractKey{"rsqrt_ulp", ContractValue::number, "2", "",
                "error of 1/sqrt, in units in the last place of acc"},
    ContractKey{"div_ulp", ContractValue::number, "2", "", "error of the division by the row length"},
    ContractKey{"mid", ContractValue::format, "f32", "", "the normalised x is rounded to this before gamma"},
};

inline bool all_finite(std::span<const double> row) {
  for (const double x : row)
    if (!std::isfinite(x)) return false;
  return true;
}

// gamma and beta of one column: not finite makes only that column so.
inline bool finite(double a, double b = 0) { return std::isfinite(a) && std::isfinite(b); }

// x_i^2 as a kernel forms it (d_i^2 alike).
inline Enclosure squared(Enclosure x, const Machine& m) { return rounded(product(x, x), m); }
// A sum divided by n: the quotient's error, or that of a rounded 1/n and a product.
inline Enclosure mean_of(Enclosure sum, double n, double div_ulp, const Machine& m) {
  return rounded(quotient(sum, {n, 0}), m, 2 * div_ulp + 1);
}

}  // namespace assay
