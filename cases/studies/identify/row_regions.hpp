// A kernel on rows at several counts of rows: whether its schedule is one, where it changes, and its bits
// against a declared one.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/identify/border.hpp"
#include "cases/studies/identify/rows.hpp"

namespace assay {

struct RowRegion {
  std::int64_t rows;
  RowCard card;
};
struct RowInvariance {
  std::string verdict;  // "proven", "refuted", "unknown"
  std::string detail;
  std::vector<SizeBorder> borders;  // in rows
};
// `regions`: of one kernel and one count of columns, by rows. Between two neighbours of other schedules the
// border is searched.
RowInvariance row_invariance(RowSubject& subject, std::int64_t cols, const std::vector<RowRegion>& regions);
std::string invariance_text(const RowInvariance& invariance);

struct RowVerdict {
  std::int64_t compared = 0, unequal = 0;  // stored outputs of all drawn inputs
  bool ok() const { return compared > 0 && unequal == 0; }
  // Of the first output that differs.
  std::string line;
  std::int64_t row = 0, column = 0;
  double got = 0, want = 0;
  // The first term whose addition differs: rows that end before it in what adds nothing have equal bits. -1
  // where no such rows are known: a mean, a transform.
  std::int64_t first_term = -1;
};
// Drawn inputs under seeds 1..seeds. Throws std::runtime_error where the kernel fails.
RowVerdict judge_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols, const RowSchedule& schedule,
                      int seeds);
std::string describe(const RowVerdict& verdict, const RowSchedule& schedule);

}  // namespace assay
