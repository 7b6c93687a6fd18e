// The exponentials of libraries, bit for bit: what `exp` of a row's or a mixture's schedule names. Arguments
// of at most 0, or, in silu, up to where f32 ends; degree5 and arm are +Inf above it.
//   libm         the C library's of the machine that replays
//   taylor7      n = round(x log2 e), r = x - n ln 2 in two steps, Taylor's polynomial of degree 7 by fused
//                steps, 2^n in two factors; taylor7_mul: the same with products and sums rounded apart
//   sleef        the same steps as taylor7 with SLEEF's coefficients (expf, 1.0 ulp); 0 below -104
//   degree5      n = floor(x log2 e + 1/2), r = x - n ln 2 in one fused step, a polynomial of degree 5; 0
//                below ln 2^-126
//   degree3      y = x log2 e rounded, less a polynomial of degree 3 of its fraction; these bits of a float
//                are 2^23 y + 127 2^23, rounded and cut off to an integer; 0 below ln 2^-126
//   arm          n by a shifter, r in two fused steps, a polynomial of degree 5 in r and r^2
//   nearest      e^x rounded once
//   series9      in f64, rounded once at the end: n = floor(x log2 e + 1/2), r = x - n ln 2 in two steps, the
//                series of degree 9, 2^n; 0 below -104, +Inf above 89
//   cuda_expf    CUDA's expf (special_functions.hpp)
//   ex2          ex2.approx of x log2 e rounded, as Triton compiles exp (special_functions.hpp)
#pragma once

#include <string_view>

namespace assay {

using RowExp = float (*)(float);
inline constexpr std::string_view kRowExps =
    "libm|nearest|taylor7|taylor7_mul|sleef|degree5|arm|series9|degree3|cuda_expf|ex2";
// One of these words.
RowExp row_exp(std::string_view word);
// tanh by the steps of series9, rounded once: (e - 1) / (e + 1) of e = e^(2 x) in f64; x itself below 2^-13,
// +-1 above 20.
float series9_tanh(float x);

}  // namespace assay
