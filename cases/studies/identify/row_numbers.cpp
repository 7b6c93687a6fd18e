#include "cases/studies/identify/row_numbers.hpp"

#include <algorithm>
#include <span>

namespace assay {
namespace {

std::vector<double> squares_of(const RowInputs& in) {
  std::vector<double> squares(static_cast<std::size_t>(in.rows));
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    const auto x = static_cast<double>(in.x[i]);
    squares[i / static_cast<std::size_t>(in.cols)] += x * x;
  }
  return squares;
}

std::span<const double> got_of(const RowAnswer& answer, std::int64_t r) {
  return std::span(answer.got)
      .subspan(static_cast<std::size_t>(r * answer.in.cols), static_cast<std::size_t>(answer.in.cols));
}

}  // namespace

bool RowNumbers::none() const {
  return std::ranges::any_of(rows_, [](const Row& row) { return row.giving.empty(); });
}

bool RowNumbers::allow(std::size_t row, float number) const {
  const Row& of = rows_[row];
  if (!(number >= of.low && number <= of.high)) return true;
  return std::ranges::find(of.giving, number) != of.giving.end();
}

RowFactors::RowFactors(Asked& asked, const std::vector<RowSchedule>& words) : replay_(asked.few) {
  const RowInputs& in = asked.few.inputs();
  const std::vector<double> squares = squares_of(in);
  std::vector<RowReplay> rows;
  for (std::int64_t r = 0; r < in.rows; ++r) rows.emplace_back(Asked::one_row(in, r));
  for (const RowSchedule& s : words) {
    RowSchedule bare = s.with("mean", "division");
    if (s.word("root") != "quotient") bare = bare.with("root", "inverse");
    const auto of = std::ranges::find_if(kinds_, [&](const Kind& k) { return k.words.front() == bare; });
    if (of != kinds_.end()) {
      of->words.push_back(s);
      continue;
    }
    Kind kind{{bare, s}, {}};
    for (std::size_t r = 0; r < rows.size() && !kind.factors.none(); ++r) {
      SumsOfRows one{{}, {}, {0}, {0}};
      kind.factors.add(replay_.factor(bare, squares[r]), [&](float f) {
        one.factor[0] = f;
        return rows[r].unequal(bare, one, got_of(asked.answer, static_cast<std::int64_t>(r)), 1) == 0;
      });
    }
    kinds_.push_back(std::move(kind));
  }
  std::erase_if(kinds_, [](const Kind& k) { return k.factors.none(); });
}

std::vector<RowSchedule> RowFactors::fitting(const std::vector<double>& squares) const {
  std::vector<RowSchedule> list;
  for (const Kind& kind : kinds_)
    for (std::size_t w = 1; w < kind.words.size(); ++w) {
      const RowSchedule& s = kind.words[w];
      std::size_t r = 0;
      while (r < squares.size() && kind.factors.allow(r, replay_.factor(s, squares[r]))) ++r;
      if (r == squares.size()) list.push_back(s);
    }
  return list;
}

RowNumbers means_of(Asked& asked, const RowSchedule& schedule) {
  const RowInputs& in = asked.few.inputs();
  RowNumbers means;
  for (std::int64_t r = 0; r < in.rows; ++r) {
    RowReplay row(Asked::one_row(in, r));
    double sum = 0;
    for (const float x : row.inputs().x) sum += static_cast<double>(x);
    means.add(static_cast<float>(sum / static_cast<double>(in.cols)), [&](float m) {
      return row.unequal(schedule, row.sums_about(schedule, {m}), got_of(asked.answer, r), 1) == 0;
    });
    if (means.none()) break;
  }
  return means;
}

}  // namespace assay
