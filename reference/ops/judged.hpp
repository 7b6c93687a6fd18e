// The rule of every verdict over numbers, in positive logic: ok = error <= limit, which a NaN fails.
#pragma once

namespace assay {

struct Judged {
  bool ok;
  double ratio;  // error / limit; 0 when exact, infinite when no limit would do
};

// One output element against its truth (Truth in op.hpp). value NaN: got must be NaN, unless the limit is +Inf: then
// nothing is claimed. value infinite: got must be it. Otherwise |got - value| <= limit.
Judged judge(double got, double value, double limit);

}  // namespace assay
