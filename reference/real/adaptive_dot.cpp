#include "reference/real/adaptive_dot.hpp"

#include "reference/real/dot2.hpp"
#include "reference/real/mp.hpp"

namespace assay {

Escalated adaptive_dot(std::span<const double> x, std::span<const double> y,
                       const std::function<bool(Certified)>& decides) {
  const auto wide = [&] {
    mp::Interval sum(0.0);
    for (std::size_t i = 0; i < x.size(); ++i) sum = sum + mp::Interval(x[i]) * mp::Interval(y[i]);
    return sum.certified();
  };
  return escalate(
      decides, [&] { return dot2(x, y).certified(); }, wide);
}

}  // namespace assay
