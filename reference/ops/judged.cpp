#include "reference/ops/judged.hpp"

#include <cmath>
#include <limits>

namespace assay {

Judged judge(double got, double value, double limit) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (std::isnan(value)) {
    const bool ok = std::isnan(got) || std::isinf(limit);
    return {ok, ok ? 0.0 : kNever};
  }
  if (std::isinf(value)) return {got == value, got == value ? 0.0 : kNever};
  const double error = std::fabs(got - value);
  const bool ok = error <= limit;
  if (!(error >= 0)) return {ok, kNever};  // NaN
  return {ok, error == 0 ? 0.0 : error / limit};
}

}  // namespace assay
