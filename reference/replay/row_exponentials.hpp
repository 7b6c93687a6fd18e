// The steps of softmax and logsumexp in front of their quotient: logits, their maximum, exponentials, and the
// sum of those.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/replay/replay.hpp"
#include "reference/replay/row_schedule.hpp"

namespace assay {

// What one call was given, and how its output is stored.
struct RowInputs {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> x, gamma, beta;  // [rows, cols], [cols], [cols]; the last two where the op has them
  float eps = 0;
  std::int64_t points = 1;   // wht: of one transform
  std::vector<float> signs;  // wht: [points] of +-1; empty: none
  bool inverse = false;
  std::string stored_as = "f32";
  float temperature = 1, softcap = 0;  // softmax; 1 and 0: none
  std::vector<char> visible = {};      // softmax: [rows, cols]; empty: all
  std::vector<float> sinks = {};       // softmax: [rows]; empty: none
  bool is_hidden(std::size_t at) const { return !visible.empty() && visible[at] == 0; }
};

// Whether the call has the step that this key of softmax names; true for keys of steps that each call has.
bool has_step(std::string_view key, const RowInputs& in);
// The key of a step that the call has and the schedule has no word for, or the other way round; "" where
// there is none.
std::string_view step_at_odds(const RowSchedule& schedule, const RowInputs& in);

class RowExponentials {
 public:
  RowExponentials(const RowSchedule& schedule, const RowInputs& in);
  float top(std::size_t row) const { return top_[row]; }
  // [rows, cols], 0 where hidden.
  const std::vector<float>& values() const { return e_; }
  // Of each row, its sink's among them.
  std::vector<double> sums(const Schedule& schedule) const;

 private:
  std::vector<float> top_, e_, sinks_;
  std::optional<SummedRows> all_;
  std::vector<SummedRows> each_;  // hidden=closed
};

}  // namespace assay
