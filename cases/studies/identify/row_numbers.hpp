// What the outputs of a norm's row say of the numbers that its sums became, whichever sums those were: among
// all floats near the right one, those that give the whole row. Sums are then held against a few numbers and
// not against rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cases/studies/identify/row_asked.hpp"

namespace assay {

// Of each row, the floats near the right one that give all of it under a schedule's words.
class RowNumbers {
 public:
  // The next row; `gives`: whether a float gives it whole.
  template <typename Gives>
  void add(float right, const Gives& gives) {
    Row row{right, right, {}};
    for (int i = 0; i < kPlaces; ++i)
      row.low = std::nextafter(row.low, -HUGE_VALF), row.high = std::nextafter(row.high, HUGE_VALF);
    for (float x = row.low; x <= row.high; x = std::nextafter(x, HUGE_VALF))
      if (gives(x)) row.giving.push_back(x);
    rows_.push_back(std::move(row));
  }
  // No float near the right one gives one of the rows.
  bool none() const;
  // What lies farther off was not tried, and may.
  bool allow(std::size_t row, float number) const;

 private:
  static constexpr int kPlaces = 32;  // sums in f32 or wider are nearer, in any order
  struct Row {
    float low, high;
    std::vector<float> giving;
  };
  std::vector<Row> rows_;
};

// The factors of norms: 1 / sqrt(v), or with root=quotient sqrt(v). Words that differ in `mean` and `root`
// alone share their numbers.
class RowFactors {
 public:
  // Of rows and what was stored of them, whose means are `mean`: 0 of an rmsnorm and of balanced rows; others
  // are of running moments.
  RowFactors(RowReplay& rows, std::span<const double> got, const std::vector<RowSchedule>& words,
             float mean = 0);
  // Which of `among`, indices of the words, have a root of these squares that is a factor of each row.
  std::vector<std::size_t> fitting(const std::vector<double>& squares,
                                   const std::vector<std::size_t>& among) const;

 private:
  struct Kind {
    RowSchedule bare;
    RowNumbers factors;
  };
  RowReplay& rows_;
  std::vector<RowSchedule> words_;
  float mean_;
  std::vector<Kind> kinds_;
  std::vector<std::size_t> kind_of_;  // of each word
};

// Words of a norm whose squares a schedule adds, held against one answer after another by their factors.
class FactorSieve {
 public:
  explicit FactorSieve(const std::vector<RowSchedule>& words) : words_(words) {}
  void add(RowReplay& rows, std::span<const double> got) {
    steps_.emplace_back(&rows, RowFactors(rows, got, words_));
  }
  // The words that every answer allows with these squares, as whole schedules.
  std::vector<RowSchedule> fitting(const Schedule& squares);

 private:
  std::vector<RowSchedule> words_;
  std::vector<std::pair<RowReplay*, RowFactors>> steps_;
};

// The means that give each row whole under a schedule, apart from its sum.
RowNumbers means_of(Asked& asked, const RowSchedule& schedule);

}  // namespace assay
