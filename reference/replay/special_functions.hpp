// The special functions of NVIDIA's multi-function unit, bit for bit, and the library functions that are made
// of them.
//
// The unit interpolates: bits 22..17 of a fraction f of 23 bits choose a segment, x = f mod 2^17 is what is
// left, and
//   value = c0 + c1 x 2^-23 + c2 square(x) 2^-46           exact; then cut, never rounded
// square(x) is x^2 of a squarer without its low columns: the sum of 2^(2i) b_i and 2^(i+j+1) b_i b_j, i < j,
// over x's bits, each term below 2^19 left out. The coefficients are in special_tables.hpp.
//   ex2.approx.ftz.f32   x is cut toward zero to 23 bits behind the point, trunc(|x| 2^23) = n 2^23 + f, V
//                        the value cut to 23 bits:
//                          x >= 0, or f = 0:   2^(+-n) (1 + V[f])
//                          x < 0:              2^(-n - 1) (1 + V[2^23 - 1 - f])      the one's complement,
//                                              not the two's
//   rcp.approx.ftz.f32   x = 2^e (1 + f 2^-23): 2^-e times value, cut to 24 bits behind the point; 128
//                        segments, x of 16 bits, columns from 2^17; c1 is negative. div.full.f32 is the
//                        rounded product with it
//   rsqrt.approx.ftz.f32 x = 4^e z, z in [1, 4): 2^-e times value, cut to 24 bits behind the point, and 2^-e
//   itself for z = 1; 64 segments for
//                        each of [1, 2) and [2, 4), columns as for ex2, one more bit of c1
//   sqrt.approx.ftz.f32  likewise: 2^e times value, cut to 23 bits behind the point; it is no product of x
//                        and rsqrt
//   lg2.approx.ftz.f32   x = 2^e (1 + f 2^-23), e >= 0: e + value, cut to 24 significant bits; 0 for x = 1
// Found on an H200 and compared there over every input named: reports/results/cards/special_functions.md.
#pragma once

#include <optional>

namespace assay {

// ex2.approx.ftz.f32: subnormal inputs count as zero, results below 2^-126 are +0. NaN gives NaN, 2^128 and
// beyond infinity.
float ex2_approx_ftz(float x);
// ex2.approx.f32, and exp2f compiled without -ftz: below -126 the square of ex2(x / 2), which keeps subnormal
// results.
float exp2_subnormal(float x);
// rcp.approx.ftz.f32: subnormal inputs count as zero, results below 2^-126 are zero.
float rcp_approx_ftz(float x);
// rsqrt.approx.ftz.f32: an infinity of x's sign for subnormal x and zeros, NaN below.
float rsqrt_approx_ftz(float x);
// sqrt.approx.ftz.f32: a zero of x's sign for subnormal x and zeros, NaN below.
float sqrt_approx_ftz(float x);
// div.full.f32 where neither subnormals nor 2^126 < |b| occur: a rcp.approx(b), rounded.
float div_full(float a, float b);
// expf(x) as nvcc compiles it without -use_fast_math: 2^n ex2(f), x log2 e = n + f reduced in two fused
// steps.
float cuda_expf(float x);
// tanhf(x) likewise: an odd polynomial below 0.6, 1 - 2 / (e^(2 |x|) + 1) from there on, 1 from 9.01 on.
float cuda_tanhf(float x);
// lg2.approx.ftz.f32 for finite x >= 1; nothing for other x, of which the rule is not known.
std::optional<float> lg2_approx_ftz(float x);
// __logf(x): ln 2 times that.
std::optional<float> cuda_fast_logf(float x);
// logf(x), x > 0, as nvcc compiles it without -use_fast_math: a polynomial, no table.
float cuda_logf(float x);

}  // namespace assay
