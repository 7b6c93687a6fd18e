#include "reference/ops/judged.hpp"

#include <cmath>
#include <limits>

namespace assay {

Judged judge(double got, double value, double limit) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (limit == kNever) return {true, 0};
  if (std::isnan(value)) return {std::isnan(got), std::isnan(got) ? 0.0 : kNever};
  if (std::isinf(value)) return {got == value, got == value ? 0.0 : kNever};
  const double error = std::fabs(got - value);
  const bool ok = error <= limit;
  if (!(error >= 0) || std::isnan(limit)) return {ok, kNever};
  return {ok, error == 0 ? 0.0 : error / limit};
}

}  // namespace assay
