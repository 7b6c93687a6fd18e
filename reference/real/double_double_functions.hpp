// exp, expm1, log, log1p and tanh in double-double, with proven relative error bounds in units of u^2 =
// 2^-106, and log and tanh as certified doubles. Slow (0.2 to 1 us): for escalation, and for the one log or
// tanh of a row.
#pragma once

#include "reference/real/adaptive.hpp"
#include "reference/real/double_double.hpp"

namespace assay {

// Relative errors. exp and expm1's core are proven by double_double_proof_test.cpp (interval evaluation of
// every operation); the others follow from them, as derived in double_double_functions.cpp.
inline constexpr double kExpErrorDoubleDouble = 16 * kDoubleDoubleUnit;
inline constexpr double kExpm1Error = 72 * kDoubleDoubleUnit;
inline constexpr double kLog1pError = 128 * kDoubleDoubleUnit;
inline constexpr double kLogError = 160 * kDoubleDoubleUnit;
inline constexpr double kTanhError = 96 * kDoubleDoubleUnit;

/// e^x. Domain: -600 <= x <= 709; below -600 the low word may be subnormal (absolute error 2^-1073 more), and
/// below -745 the result is 0; above 709 it is +inf. NaN propagates.
DoubleDouble exp(DoubleDouble x);
/// e^x - 1, relative error kExpm1Error. Domain: |x| >= 2^-400 or x = 0, x <= 709.
DoubleDouble expm1(DoubleDouble x);
/// ln x. Domain: 2^-480 <= x <= 2^480 (relative to |ln x|). x = 0 gives -inf, x < 0 NaN, +inf stays.
DoubleDouble log(DoubleDouble x);
/// ln(1 + x). Domain: -1/2 <= x <= 1 and |x| >= 2^-400 or x = 0.
DoubleDouble log1p(DoubleDouble x);
/// Domain: all; |x| >= 2^-400 or x = 0.
DoubleDouble tanh(DoubleDouble x);

/// value = x.hi, error = |x.lo| + relative_error |x|, outward.
Certified certified(DoubleDouble x, double relative_error);

/// log and tanh at a double, as certified doubles (error about half an ulp: the low word is known but
/// dropped), over the whole range of finite doubles where the function is defined and finite. Elsewhere (log
/// 0, NaN, infinities) the error is +inf or NaN and certifies nothing.
Certified certified_log(double x);
Certified certified_tanh(double x);

namespace double_double_detail {
inline constexpr int kExpDegree = 24;
/// 1/i!, i = 0..24, to 106 bits.
inline constexpr DoubleDouble kInverseFactorial[kExpDegree + 1] = {
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.0000000000000p+0, 0x0.0p+0},
    {0x1.0000000000000p-1, 0x0.0p+0},
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65},
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
    {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},
    {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80},
    {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
    {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
    {0x1.93974a8c07c9dp-37, 0x1.05d6f8a2efd1fp-92},
    {0x1.ae7f3e733b81fp-41, 0x1.1d8656b0ee8cbp-97},
    {0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101},
    {0x1.952c77030ad4ap-49, 0x1.ac981465ddc6cp-103},
    {0x1.6827863b97d97p-53, 0x1.eec01221a8b0bp-107},
    {0x1.2f49b46814157p-57, 0x1.2650f61dbdcb4p-112},
    {0x1.e542ba4020225p-62, 0x1.ea72b4afe3c2fp-120},
    {0x1.71b8ef6dcf572p-66, -0x1.d043ae40c4647p-120},
    {0x1.0ce396db7f853p-70, -0x1.aebcdbd20331cp-124},
    {0x1.761b41316381ap-75, -0x1.3423c7d91404fp-130},
    {0x1.f2cf01972f578p-80, -0x1.9ada5fcc1ab14p-135}};
inline constexpr double kLn2Third = 0x1.7b57a079a1934p-111;  // ln 2 - L - M, see exp.hpp
}  // namespace double_double_detail

}  // namespace assay
