// An answer of a kernel on rows beside its replay, and what tells the schedule that was found from its
// neighbours.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases/studies/identify/rows.hpp"

namespace assay {

// One answer, and a few of its rows, on which most hypotheses fail.
struct Asked {
  RowAnswer answer;
  RowReplay few, all;

  Asked(RowAnswer a, std::int64_t rows)
      : answer(std::move(a)), few(first_rows(answer.in, rows)), all(answer.in) {}
  static RowInputs first_rows(const RowInputs& in, std::int64_t rows) {
    RowInputs part = in;
    part.rows = std::min(rows, in.rows);
    part.x.resize(static_cast<std::size_t>(part.rows * in.cols));
    if (!in.visible.empty()) part.visible.resize(part.x.size());
    if (!in.sinks.empty()) part.sinks.resize(static_cast<std::size_t>(part.rows));
    return part;
  }
  static RowInputs one_row(const RowInputs& in, std::int64_t r) {
    RowInputs row = in;
    row.rows = 1;
    const auto cut = [&](auto& list, std::int64_t each) {
      if (!list.empty()) list.assign(list.begin() + r * each, list.begin() + (r + 1) * each);
    };
    cut(row.x, in.cols), cut(row.visible, in.cols), cut(row.sinks, 1);
    return row;
  }
  bool few_fit(const RowSchedule& s, const SumsOfRows& sums) {
    return few.unequal(s, sums, answer.got, 1) == 0;
  }
  std::int64_t unequal(const RowSchedule& s, std::int64_t most = INT64_MAX) {
    return all.unequal(s, all.sums(s), answer.got, most);
  }
  bool fits(const RowSchedule& s) { return unequal(s, 1) == 0; }
  std::int64_t outputs() const { return static_cast<std::int64_t>(answer.got.size()); }
};

// Of words those whose exponential is every output of `asked`, rows of bare exponentials; what the others'
// are, or where none is, the nearest.
struct BareExponentials {
  std::vector<RowSchedule> words;
  std::string against;
  std::optional<CardField> unknown;
};
BareExponentials fit_bare_exponentials(std::vector<RowSchedule> words, Asked& asked);

// Of a softmax with steps of its own, the words that give some rows whole with whichever sum: of f32 a row's
// largest output tells its sum but for the last places.
std::vector<RowSchedule> fit_with_any_sum(std::vector<RowSchedule> words, const RowAnswer& answer);

// What every other value of each field would have changed, of `least` outputs or more; one that changes none
// of all leaves the field open. `exponential`: what told the exponential from the others, where that was
// asked apart.
void show_against(const std::vector<std::unique_ptr<Asked>>& answers, const std::string& exponential,
                  const std::vector<RowSchedule>& alike, std::int64_t least, RowCard& card);

}  // namespace assay
