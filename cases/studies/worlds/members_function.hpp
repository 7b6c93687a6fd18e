// Members of a function: every number of the format within the declared units in the last place of the exact
// result.
#pragma once

#include "cases/studies/worlds/toy.hpp"

namespace assay::worlds {

// "error of exp, in units in the last place of acc": |got - f| <= ulps ulp(f), ulp that of the real number f,
// whose least is the distance of subnormals. What is subnormal may become zero under ftz. `floor`: no kernel
// returns less (0 of exp, -1 of tanh).
Set within(const Arithmetic& a, long double exact, double ulps, double floor = -HUGE_VAL,
           double ceiling = HUGE_VAL);

Set exponential(const Arithmetic& a, double x, double ulps);
// "base2: exp2(log2(e) (s - m)), two more roundings": of log2(e), and of the product. `difference` is s - m,
// rounded.
Set exponential_base2(const Arithmetic& a, double difference, double ulps);
Set logarithm(const Arithmetic& a, double x, double ulps);
Set hyperbolic_tangent(const Arithmetic& a, double x, double ulps);
// "error of 1/sqrt, in units in the last place of acc"
Set reciprocal_root(const Arithmetic& a, double x, double ulps);
// "error of a quotient, or of reciprocal and product": the whole of it, compared without an error of its own.
Set quotient(const Arithmetic& a, double x, double y, double ulps);

}  // namespace assay::worlds
