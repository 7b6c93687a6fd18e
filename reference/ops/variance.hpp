// Mean and variance of a row: their exact values with the error of a kernel of each algorithm, and MODELS of
// the three algorithms in f32 as kernels run them.
//
//   two_pass: v = mean (x - mean(x))^2      one_pass: v = mean(x^2) - mean(x)^2      welford: M += (x - M) /
//   k, ...
//
// Errors, kappa^2 = 1 + mu^2 / sigma^2. Exact identity: mean (x - m)^2 = sigma^2 + (mu - m)^2 for every m, so
// two_pass: the kernel's mean m enters only as (m - mu)^2, which is second order, and three roundings and the
// sum:
//           |dv| <= (dmu)^2 + g (sigma^2 + (dmu)^2), g = (n + 3) u to first order: n u + n^2 kappa^2 u^2
//           relative.
// one_pass: |dv| <= err(mean x^2) + 2 |mu| dmu + dmu^2 + u (mu^2 + sigma^2): n kappa^2 u relative. A kernel
// that keeps
//           the contract clamps the difference at 0; one that does not may take the root of a negative
//           number, and its NaN is wrong under every contract, for the exact result is finite.
// welford:  sequential over the row. M_k = M_{k-1} + (x_k - M_{k-1}) / k,  S_k = S_{k-1} + (x_k -
// M_{k-1})(x_k - M_k).
//           With em, es the errors of M and S: the exact recurrences damp em by (1 - 1/k), and each of the
//           five rounded operations adds u times its result; es collects the product's error. ~ n kappa u
//           relative.
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
// x finite, not empty.
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

// LayerNorm of one row by such a kernel: (x - mean) / sqrt(variance + eps) * gamma + beta; NaN when variance
// + eps < 0. gamma and beta may be empty (1 and 0).
void layernorm_f32(std::span<const float> x, std::span<const float> gamma, std::span<const float> beta,
                   float eps, VarianceKind kind, std::span<float> y);

}  // namespace assay
