// level=replay: a kernel whose schedule is declared whole has no limit but its bits.
#pragma once

#include <optional>
#include <string>

#include "cases/studies/identify/subject.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {

struct ReplayVerdict {
  std::int64_t compared = 0, unequal = 0;  // stored outputs of all drawn inputs
  bool ok() const { return compared > 0 && unequal == 0; }
  // Of the first output that differs.
  std::string line;
  std::int64_t row = 0, column = 0;
  double got = 0, want = 0;
  // The first step whose result differs, in any output: the same inputs, zero behind term t - 1, give equal
  // bits, and with term t they do not; found by halving
  // ("term 384 is added: slice 2 of 3"). "" where the format of the operands cannot be crafted.
  std::string first_step;
  std::int64_t first_term = -1;
};

// Drawn inputs under seeds 1..seeds. Throws InputError where the schedule cannot be replayed on the operands,
// std::runtime_error where the kernel fails.
ReplayVerdict judge_by_replay(GemmSubject& subject, const GemmShape& shape, const GroupedSchedule& schedule,
                              int seeds);
std::string describe(const ReplayVerdict& verdict, const GroupedSchedule& schedule);

}  // namespace assay
