// The search for the schedule of a kernel among hypotheses: every bit of every output must be equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/subject.hpp"

namespace assay {

// What a kernel of this schedule stores, given the sums before its epilogue: scales, then the store's
// rounding.
std::vector<double> stored_outputs(const Answer& answer, const std::vector<double>& sums,
                                   const std::string& scales, const std::string& stored_as);
// Some rows and columns of an answer.
Answer excerpt(const Answer& whole, const std::vector<std::int64_t>& rows,
               const std::vector<std::int64_t>& columns);
// At most `most` of `count` places, evenly.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most);
// Equal as numbers; NaN is equal to NaN.
bool same_number(double x, double y);

// Rows of the output that have one schedule.
struct RowPiece {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns = {};  // of these alone; {}: of all
  std::optional<Schedule> schedule;        // nullopt: none of the hypotheses
  std::vector<Schedule> also;              // others that gave the same bits on everything that was asked,
                                           // other spellings of the same additions among them
  std::int64_t compared = 0, unequal = 0;  // outputs; unequal is 0 where a schedule was found
  Schedule nearest;          // without a schedule: the hypothesis with most equal outputs of the first row,
  double nearest_share = 0;  // and their share
};

struct SearchOptions {
  bool alternatives = true;  // go on after the first that fits, for others that cannot be told from it
  bool scaled = false;       // the kernel has scales, though this answer's may all be 1
  double seconds = 1e9;      // no new hypotheses of a row after so long
};

// Rows of one answer after another; `hypotheses` in the order of preference.
std::vector<RowPiece> search(const Answer& answer, const std::string& stored_as,
                             const std::vector<Schedule>& hypotheses, const SearchOptions& options = {});
// Holds the pieces against further answers of the same shape: alternatives that fail are dropped, a piece
// whose schedules all fail has none any more.
void confirm(std::vector<RowPiece>& pieces, const Answer& answer, const std::string& stored_as);

}  // namespace assay
