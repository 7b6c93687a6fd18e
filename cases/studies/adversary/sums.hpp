// Sums in every order that a kernel may take, each addition rounded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/adversary/arithmetic.hpp"

namespace assay::adversary {

// seq rev asc desc perm random tree lanes:N strided:N blocks:N: how a kernel adds.
inline constexpr std::string_view kSums =
    "seq|rev|asc|desc|perm|random|tree|lanes:4|lanes:32|strided:8|strided:32|blocks:4|blocks:16|blocks:128";

// The sum of terms, or of products x_i y_i (y given), fused or not.
double ordered_sum(const Arithmetic& m, std::span<const double> x, std::span<const double> y,
                   std::string_view sum, bool fused, std::uint64_t seed);
inline double ordered_sum(const Arithmetic& m, std::span<const double> x, std::string_view sum,
                          std::uint64_t seed) {
  return ordered_sum(m, x, {}, sum, false, seed);
}
// The contract's word that is true of the sum: the sharpest one, or `any`.
std::string order_word(std::string_view sum, bool sharp);
// N of "lanes:N"; 0 without one.
std::int64_t count_of(std::string_view sum);

}  // namespace assay::adversary
