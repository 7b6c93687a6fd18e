// The rule of every verdict over numbers, in positive logic: ok = error <= limit, which a NaN fails.
#pragma once

namespace assay {

struct Judged {
  bool ok;
  double ratio;  // error / limit; 0 when exact, infinite when no limit would do
};

// One output element against its truth (Truth in op.hpp). Limit +Inf: nothing is claimed, and anything is
// right, for a kernel whose intermediate result may overflow may go on to Inf - Inf. Otherwise, value NaN:
// got must be NaN. value infinite: got must be it. Else |got - value| <= limit.
Judged judge(double got, double value, double limit);

}  // namespace assay
