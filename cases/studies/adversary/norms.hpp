// What kernels of softmax, norms and attention share: functions and quotients as libraries give them.
#pragma once

#include <string_view>

#include "cases/studies/adversary/family.hpp"
#include "cases/studies/adversary/sums.hpp"

namespace assay::adversary {

// What ftz=yes flushes: it says that subnormals may become zero, not that all do.
inline constexpr Axis kFlush = {"flush", "both|both|operands|results"};

// quotient=exact|reciprocal|ulps: how a / b is formed, and the ulps of it that are true (div_ulp).
inline constexpr std::string_view kQuotients = "exact|exact|reciprocal|ulps:1|ulps:2|ulps:100";
double quotient(const Arithmetic& m, double a, double b, std::string_view how, int side);
double quotient_ulp(std::string_view how);

// exp(a - b) as a kernel forms it: exp=e, base2 (2^(log2 e (a - b))) or base2_fused (fma(a, log2 e, -log2 e
// b)).
inline constexpr std::string_view kExps = "e|e|base2|base2_fused";
double exp_difference(const Arithmetic& m, double a, double b, std::string_view how, double ulps, int side);

double positive_number(const Choices& choices, const std::string& name);     // "exp_ulp" -> 2
const std::string& choice(const Choices& choices, const std::string& name);  // "none" where there is none

}  // namespace assay::adversary
