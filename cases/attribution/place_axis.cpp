#include "cases/attribution/place_axis.hpp"

#include <algorithm>
#include <utility>

namespace assay::attribution {

double common_factor(const std::vector<Part>& row) {
  std::vector<std::pair<double, std::int64_t>> ends;
  std::size_t seen = 0;
  for (const Part& p : row) {
    if (p.seen()) ++seen;
    const double ratio = p.got / p.want, slack = p.limit / p.want * std::max(1.0, std::fabs(ratio));
    if (!p.seen() || p.lost() || !std::isfinite(ratio)) continue;
    const std::int64_t votes = p.last - p.first + 1;
    ends.emplace_back(ratio - slack, votes), ends.emplace_back(ratio + slack, -votes);
  }
  std::ranges::sort(ends, [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second > b.second);
  });
  std::int64_t now = 0, most = 0;
  double factor = 1;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    now += ends[i].second;
    if (now > most) most = now, factor = (ends[i].first + ends[i + 1].first) / 2;
  }
  const auto only_as_it_is = [&](const Part& p) {
    return p.seen() && mark_of(p, 1) == Mark::right && mark_of(p, factor) != Mark::right;
  };
  return std::cmp_greater_equal(std::ranges::count_if(row, only_as_it_is), std::max<std::size_t>(2, seen / 8))
             ? 1
             : factor;
}

Mark mark_of(const Part& p, double factor) {
  if (!p.seen()) return Mark::open;
  const double far = p.got - factor * p.want, allowed = p.limit * (1 + std::fabs(factor));
  if (std::fabs(far) <= allowed) return Mark::right;
  // A part that is seen and lost is off by kSeen limits, of which two are allowed.
  if (std::fabs(far) <= Part::kSeen / 2 * allowed && !p.lost()) return Mark::doubtful;
  return p.lost() || far < 0 || !std::isfinite(far) ? Mark::off : Mark::gained;
}

bool Axis::any_wrong() const {
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (wrong(i)) return true;
  return false;
}

std::optional<Run> run_of(const Axis& axis, std::int64_t fewest) {
  std::vector<Run> runs;
  std::int64_t right = 0, last_right = -1;
  const std::int64_t n = std::ssize(axis.marks);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (axis.marks[at] == Mark::open) continue;
    if (axis.marks[at] == Mark::doubtful) return std::nullopt;
    if (!axis.wrong(at)) {
      ++right, last_right = i;
      continue;
    }
    if (!runs.empty() && runs.back().last > last_right)
      runs.back().last = i;
    else
      runs.push_back({i, i, 0});
  }
  if (runs.empty() || right < fewest) return std::nullopt;
  if (runs.size() == 1) return runs[0];
  if (runs.size() == 2)
    return std::nullopt;  // two are no pattern: a key that is right by chance parts what is wrong
  const std::int64_t each = runs[1].first - runs[0].first, length = runs[0].last - runs[0].first;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::int64_t first = runs[0].first + static_cast<std::int64_t>(i) * each;
    if (runs[i].first != first || runs[i].last != std::min(n - 1, first + length)) return std::nullopt;
  }
  if (runs[0].first >= each || runs[0].first + std::ssize(runs) * each < n) return std::nullopt;
  return Run{runs[0].first, runs[0].last, each};
}

}  // namespace assay::attribution
