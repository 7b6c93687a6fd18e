// A fused attention kernel against schedules: its bits under a declared one, and whether one holds at every
// call asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/attention.hpp"

namespace assay {

// One head with its keys prepared.
class ReplayedHead {
 public:
  explicit ReplayedHead(const AttentionHead& head);
  // Of the last `rows` rows, which see most keys under any mask.
  ReplayedRows run(const AttentionSchedule& how, std::int64_t rows) const;
  // Outputs of them that differ; one whose step is not modelled differs, and so does NaN.
  std::int64_t unequal(const AttentionSchedule& how, std::int64_t rows) const;
  std::int64_t unequal(const AttentionSchedule& how) const { return unequal(how, head_.rows); }
  const AttentionHead& head() const { return head_; }

 private:
  const AttentionHead& head_;
  AttentionReplay replay_;
};

struct AttentionVerdict {
  std::int64_t compared = 0, unequal = 0;
  bool ok() const { return compared > 0 && unequal == 0; }
  // Of the first output that differs.
  std::string line;
  std::int64_t head = 0, row = 0, column = 0;
  double got = 0, want = 0;
  std::string
      instead;  // the one step that, taken so, gives every bit of that head: "tile=128"; "" where no single one does
};
// Draws under seeds 1, 2, ... until `outputs` are compared, two at least. Throws std::runtime_error where the
// kernel does not take the call.
AttentionVerdict judge_attention(const AttentionAsk& ask, const AttentionSchedule& schedule,
                                 std::int64_t outputs);
std::string describe(const AttentionVerdict& verdict, const AttentionSchedule& schedule);

// Calls of one kernel that differ in batch, in rows of q, or in keys.
struct AttentionRegion {
  std::int64_t keys = 0;
  AttentionAsk ask;
  AttentionCard card;
};
struct AttentionInvariance {
  std::string verdict;  // "proven", "refuted", "unknown"
  std::string detail;
};
// proven: one schedule has every bit of every call, so that a row with its keys has the same bits in each.
// Keys may differ in number where nothing is split: a key that is masked has weight 0 and adds nothing, while
// parts are cut by the count of keys. refuted: a call, and an output of it that is not what the schedule of
// another call gives.
AttentionInvariance attention_invariance(const std::vector<AttentionRegion>& regions, std::int64_t outputs);

}  // namespace assay
