#include "cases/studies/identify/row_numbers.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace assay {
namespace {

std::vector<double> squares_of(const RowInputs& in, double mean) {
  std::vector<double> squares(static_cast<std::size_t>(in.rows));
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    const double d = static_cast<double>(in.x[i]) - mean;
    squares[i / static_cast<std::size_t>(in.cols)] += d * d;
  }
  return squares;
}

std::span<const double> row_of(std::span<const double> got, const RowInputs& in, std::size_t r) {
  const auto cols = static_cast<std::size_t>(in.cols);
  return got.subspan(r * cols, cols);
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

RowFactors::RowFactors(RowReplay& rows, std::span<const double> got, const std::vector<RowSchedule>& words,
                       float mean)
    : rows_(rows), words_(words), mean_(mean) {
  const RowInputs& in = rows.inputs();
  const std::vector<double> squares = squares_of(in, static_cast<double>(mean));
  std::vector<RowReplay> each;
  for (std::int64_t r = 0; r < in.rows; ++r) each.emplace_back(Asked::one_row(in, r));
  for (const RowSchedule& s : words) {
    RowSchedule bare = s.with("mean", "division");
    if (s.word("root") != "quotient") bare = bare.with("root", "inverse");
    const auto of = std::ranges::find(kinds_, bare, &Kind::bare);
    kind_of_.push_back(static_cast<std::size_t>(of - kinds_.begin()));
    if (of != kinds_.end()) continue;
    Kind kind{bare, {}};
    for (std::size_t r = 0; r < each.size() && !kind.factors.none(); ++r) {
      SumsOfRows one{{}, {}, {mean}, {0}};
      kind.factors.add(rows.factor(bare, squares[r]), [&](float f) {
        one.factor[0] = f;
        return each[r].unequal(bare, one, row_of(got, in, r), 1) == 0;
      });
    }
    kinds_.push_back(std::move(kind));
  }
}

std::vector<std::size_t> RowFactors::fitting(const std::vector<double>& squares,
                                             const std::vector<std::size_t>& among) const {
  std::vector<std::size_t> list;
  for (const std::size_t w : among) {
    const RowNumbers& factors = kinds_[kind_of_[w]].factors;
    if (factors.none()) continue;
    std::size_t r = 0;
    while (r < squares.size() && factors.allow(r, rows_.factor(words_[w], squares[r], mean_))) ++r;
    if (r == squares.size()) list.push_back(w);
  }
  return list;
}

std::vector<RowSchedule> FactorSieve::fitting(const Schedule& squares) {
  std::vector<std::size_t> left(words_.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  RowSchedule s = words_.front();
  s.squares = squares;
  for (auto& [rows, factors] : steps_)
    if (!left.empty()) left = factors.fitting(rows->sums(s).squares, left);
  std::vector<RowSchedule> list;
  for (const std::size_t w : left) list.push_back(words_[w]), list.back().squares = squares;
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
      return row.unequal(schedule, row.sums_about(schedule, {m}),
                         row_of(asked.answer.got, in, static_cast<std::size_t>(r)), 1) == 0;
    });
    if (means.none()) break;
  }
  return means;
}

}  // namespace assay
