// The bits of an op on rows, under a schedule of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/replay/replay.hpp"
#include "reference/replay/row_exponentials.hpp"
#include "reference/replay/row_schedule.hpp"

namespace assay {

// The two sums of each row, empty where the schedule has none; of running moments the mean and the squares.
struct SumsOfRows {
  std::vector<double> sum, squares;
  // Of a norm, where they are not empty: what is taken in place of mean(sum) and of factor(squares).
  std::vector<float> mean = {}, factor = {};
};

// Inputs once, any number of schedules.
class RowReplay {
 public:
  explicit RowReplay(RowInputs in) : in_(std::move(in)) {}
  const RowInputs& inputs() const { return in_; }
  // What is stored: [rows, cols], of logsumexp [rows]. Throws InputError bad_value where step_at_odds() names
  // one.
  std::vector<double> outputs(const RowSchedule& schedule);
  SumsOfRows sums(const RowSchedule& schedule);
  // The same of a layernorm whose rows have these means.
  SumsOfRows sums_about(const RowSchedule& schedule, std::vector<float> means);
  // What a norm multiplies by, or with root=quotient divides by, of a row with these squares (and with
  // variance=one_pass this mean).
  float factor(const RowSchedule& schedule, double squares, float mean = 0) const;
  // A row's mean, of the sum of its numbers.
  float mean(const RowSchedule& schedule, double sum) const;
  // Stored outputs that differ from `got`, given the sums; stops behind `most` of them.
  std::int64_t unequal(const RowSchedule& schedule, const SumsOfRows& sums, std::span<const double> got,
                       std::int64_t most);

 private:
  const RowExponentials& exponentials(const RowSchedule& schedule);
  std::span<const float> row(std::int64_t r) const {
    return std::span(in_.x).subspan(static_cast<std::size_t>(r * in_.cols),
                                    static_cast<std::size_t>(in_.cols));
  }
  // Calls each(index, stored number) for one row, until it says no.
  template <typename Each>
  bool stored_row(const RowSchedule& schedule, const SumsOfRows& sums, std::int64_t r, const Each& each);

  const SummedRows& rows();
  std::vector<double> squares_about(const RowSchedule& schedule, std::vector<float> means);

  RowInputs in_;
  std::map<std::string, RowExponentials> exp_;  // by the words that decide them
  // What the schedule before this one had, where it is the same: x, its sums by a schedule, and x less these
  // means.
  std::optional<SummedRows> x_, apart_;
  Schedule summed_by_;
  std::vector<double> summed_;
  std::vector<float> means_;
};

}  // namespace assay
