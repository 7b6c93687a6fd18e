// Mean and variance of a row: their exact values with the error of a kernel of each algorithm, and MODELS of
// the three algorithms in f32 as kernels run them.
//
//   two_pass  v = mean (x - mean(x))^2
//   one_pass  v = mean(x^2) - mean(x)^2
//   welford   M_k = M_{k-1} + (x_k - M_{k-1}) / k,  S_k = S_{k-1} + (x_k - M_{k-1})(x_k - M_k),  v = S_n / n
//
// Errors, kappa^2 = 1 + mu^2 / sigma^2. Exact identity: mean (x - m)^2 = sigma^2 + (mu - m)^2 for every m, so
//   two_pass  the kernel's mean m enters only as (m - mu)^2, which is second order:
//               |dv| <= (dmu)^2 + g (sigma^2 + (dmu)^2),   g = gamma_k,  k = (n - 1) + 4 + 2 div_ulp (1 more
//                                                          where n is rounded)
//             (the sum's n - 1, or ceil(log2 n) under order=tree; the difference twice, for it is squared;
//             the square; the division; one to spare): relative n u + n^2 kappa^2 u^2.
//   one_pass  |dv| <= err(mean x^2) + 2 |mu| dmu + dmu^2 + u (mu^2 + sigma^2),
//             relative n kappa^2 u. A kernel that keeps the contract clamps the difference at 0; one that
//             does not may take the root of a negative number, and its NaN is wrong under every contract, for
//             the exact result is finite.
//   welford   order=sequential: one accumulator over the row. With em, es the errors of M and S: the exact
//             recurrences damp em by (1 - 1/k), and each of the five rounded operations adds u times its
//             result; es collects the product's error; relative about n kappa u. Every other order:
//             merged_moments.hpp. A first quotient by 1 that is not exact (div_ulp above 1/2) may overshoot
//             x, and S be negative: it is clamped as under one_pass.
// Underflow is charged to each operation whose result may be subnormal (enclosure.hpp: may_underflow), and so
// to no square of a difference above the root of the smallest normal. A division by n, or by Welford's k, is
// a quotient or a rounded reciprocal and a product; 1 / n may be subnormal, or flushed, in f16 from n = 16385
// on, and n is rounded where it has more bits than the format.
//
// With numbers: a row of n = 4096 gaussians, sigma = 1.02, order=any, div_ulp=0.5, u = 2^-24; |dv| / sigma^2
// of
//             mu = -0.02   mu = 100 (kappa = 98)
//   two_pass  2.4e-4       8.2e-4   g = 4100 u = 2.4e-4; dmu = 4096 u mu = 0.024, squared 6.0e-4
//   one_pass  2.5e-4       7.0      err(mean x^2) = 2.4 and 2 |mu| dmu = 4.9: the variance is lost
//   welford   1.2e-4       9.8e-3   dmu = 0.012, order=sequential
//             4.5e-3       6.8e-2   order=any: merges of every shape, in every formula
//             4.3e-4       4.7e-3   order=lanes:256
#pragma once

#include <span>
#include <string_view>

#include "reference/ops/enclosure.hpp"

namespace assay {

enum class VarianceKind : std::uint8_t { two_pass, one_pass, welford };
VarianceKind variance_of(std::string_view word);  // throws InputError bad_value

struct Moments {
  Enclosure mean;
  Enclosure variance;  // value: exact sigma^2 within the error; the kernel's number is never below 0
};
// Mean and variance of the n >= 1 finite numbers x, each with a bound on the error of a kernel that computes
// them by `kind`, in the type `acc`, with its sums in `order` and a division by n that errs by at most
// div_ulp units in the last place. A sum that may overflow `acc` makes the error +Inf.
Moments moments(std::span<const double> x, VarianceKind kind, Order order, double div_ulp,
                const Machine& acc);

// The kernels themselves, f32, one accumulator in memory order, a plain division by n. No clamp: the variance
// of one_pass may be negative, which is link 6 of the cascade in which one FP8 cache scale turns a whole
// model to NaN.
struct MomentsF32 {
  float mean;
  float variance;
};
MomentsF32 moments_f32(std::span<const float> x, VarianceKind kind);

}  // namespace assay
