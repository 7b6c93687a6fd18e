// Rules that other harnesses had: assay must not have them. Each is run through assay's own judgement, with a
// counterpart.
#include <limits>
#include <vector>

#include "cases/studies/museum/exhibits.hpp"
#include "harness/result.hpp"

namespace assay::museum {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool accepted(const std::vector<double>& want, const std::vector<double>& got) {
  return compare(Truth{"y", want, std::vector<double>(want.size(), 1e-3), ""}, got).ok;
}

}  // namespace

// An Inf that the truth has too, beside an element that is wrong.
Noticed matching_infinity() {
  return {!accepted({kInfinity, 1.0}, {kInfinity, 2.0}), accepted({kInfinity, 1.0}, {kInfinity, 1.0})};
}

// No element judged, no case run.
Noticed nothing_tested() {
  Summary one;
  CaseResult passed;
  passed.verdict.status = Status::pass;
  one.add(passed);
  return {!accepted({}, {}) && !Summary{}.green(), accepted({0.5}, {0.5}) && one.green()};
}

// One element of a thousand, which a ratio in a log would mention: the run as a whole must be red.
Noticed unread_ratio() {
  const std::vector<double> want(1000, 1.0);
  std::vector<double> got = want;
  const auto green = [&] {
    CaseResult r;
    r.verdict.status = accepted(want, got) ? Status::pass : Status::wrong;
    Summary summary;
    summary.add(r);
    return summary.green();
  };
  const bool counterpart = green();
  got[999] = 1.5;
  return {!green(), counterpart};
}

}  // namespace assay::museum
