#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {

double quotient(const Arithmetic& m, double a, double b, std::string_view how, int side) {
  if (how == "reciprocal") return m.mul(a, m.div(1, b));
  if (how.starts_with("ulps:")) {  // steps of a subnormal one do not change its sign
    const double exact = m.read(a) / m.read(b),
                 erring = m.within(exact, static_cast<double>(count_of(how)), side);
    return exact * erring < 0 ? std::copysign(0.0, exact) : erring;
  }
  return m.div(a, b);
}

double quotient_ulp(std::string_view how) {
  // A rounded reciprocal and a rounded product err by 1.5 ulps at most (Brisebarre, Muller, Raina 2004).
  return how == "reciprocal" ? 1.5 : how.starts_with("ulps:") ? static_cast<double>(count_of(how)) : 0.5;
}

double exp_difference(const Arithmetic& m, double a, double b, std::string_view how, double ulps, int side) {
  constexpr double kLog2E = 1.4426950408889634;
  const double c = m.round(kLog2E);
  const double x = how == "base2"         ? m.mul(c, m.sub(a, b))
                   : how == "base2_fused" ? m.fma(a, c, -m.mul(b, c))
                                          : m.sub(a, b);
  const double exact = how == "e" ? std::exp(x) : std::exp2(x);
  return std::max(m.within(exact, ulps, side), 0.0);
}

const std::string& choice(const Choices& choices, const std::string& name) {
  static const std::string none = "none";
  const auto found = choices.find(name);
  return found == choices.end() ? none : found->second;
}
double positive_number(const Choices& choices, const std::string& name) {
  return std::strtod(choice(choices, name).c_str(), nullptr);
}

}  // namespace assay::adversary
