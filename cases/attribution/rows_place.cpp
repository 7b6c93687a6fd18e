// The place of a fault in an op over rows (softmax, logsumexp, the norms) or in a quantiser: which columns,
// which rows.
//
//   numbers  the case's own shape, numbers of one size: rows of which nothing is right, beside rows that are;
//            columns likewise
//   heavy    in each row one column, another in each, has all the weight: what is left out of its sum, or of
//            its maximum, is that column. Of a quantiser one in each group has the largest code, and all
//            others are 0
//
// A column that is wrong in rows in which another is heavy has been read from elsewhere: it is the place, not
// the heavy one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/place_axis.hpp"
#include "reference/formats/format.hpp"
#include "reference/inputs/random.hpp"

namespace assay::attribution {
namespace {

constexpr std::int64_t kMostElements = 1 << 20;  // of a question
// A logit whose weight is nothing beside that of its negative; and a number that no scale has as its largest
// code.
constexpr float kLight = -60, kHeavy = 11;

class RowPlaces {
 public:
  explicit RowPlaces(Bench& bench)
      : bench_(bench),
        op_(bench.the_case().op->name),
        rows_(bench.the_case().attributes.integer("rows")),
        cols_(bench.the_case().attributes.integer("cols")) {
    const char* stored = op_ == "quantize" || op_ == "requantize" ? "to" : op_ == "dequantize" ? "from" : "";
    group_ = cols_;
    if (*stored == '\0') return;
    quantises_ = true;
    const Format& f = format(bench.the_case().attributes.text(stored));
    if (f.kind == FormatKind::block || f.axis == ScaleAxis::group32) group_ = f.block_elements;
  }

  std::string named() {
    const Axis rows = ask_numbers(5);
    // What other numbers show as well is no accident.
    if (const auto run = run_of(rows, 1); run && ask_numbers(6).marks == rows.marks) {
      std::string text = range("rows", *run);
      auto columns = run_of(columns_, 1);
      if (!columns && !quantises_ && run->first == run->last && run->of_each == 0)
        columns = column_of(run->first);
      return columns ? text + ", " + range("columns", *columns) : text;
    }
    if (cols_ <= kMostElements / 4)
      if (const auto run = heavy_columns()) return range("columns", *run);
    const std::vector<Mark> before = columns_.marks;
    const auto columns = run_of(columns_);
    if (!columns) return "";
    columns_ = Axis(cols_);
    (void)ask_numbers(6);
    return columns_.marks == before ? range("columns", *columns) : "";
  }

 private:
  static std::string range(const char* axis, const Run& r) {
    return fmt::format("{} {}..{}{}", axis, r.first, r.last,
                       r.of_each > 0 ? fmt::format(" of each {}", r.of_each) : "");
  }

  static bool wrong(const Answer& a, std::size_t i) {
    const double got = a.got[0][i], want = a.truths[0].value[i];
    return got != want && !(std::fabs(got - want) <= a.truths[0].limit[i]) &&
           !(std::isnan(got) && std::isnan(want));
  }
  // Of a softmax a logit, of a norm nothing beside the heavy one, of a quantiser so little that its code is
  // 0.
  float number(bool heavy) const {
    if (op_ == "softmax" || op_ == "logsumexp") {
      const double unit = op_ == "softmax" ? bench_.the_case().attributes.real("temperature") : 1;
      return static_cast<float>((heavy ? -kLight : kLight) * unit);
    }
    return heavy ? kHeavy : quantises_ ? kHeavy / 1024 : 0.0F;
  }
  static void mark(Axis& axis, std::int64_t at, bool is_wrong) {
    Mark& m = axis.marks[static_cast<std::size_t>(at)];
    m = std::max(m, is_wrong ? Mark::off : Mark::right);
  }

  // Of the rows; and of the columns, from the rows that are wrong.
  Axis ask_numbers(std::uint64_t seed) {
    Axis rows(rows_);
    const Answer a = bench_.ask(Edit([=](const TensorSpec& t, std::vector<float>& x) {
      const Stream draw(seed, t.name);
      for (std::size_t i = 0; t.name != "mask" && i < x.size(); ++i)
        x[i] = static_cast<float>((1 + draw.uniform(i)) * (draw.below(i, 2) == 0 ? -1 : 1));
    }));
    if (!a.ran || a.got.empty() || a.truths.empty()) return rows;
    const auto width = static_cast<std::int64_t>(a.got[0].size()) / rows_;
    for (std::size_t i = 0; i < a.got[0].size(); ++i)
      mark(rows, static_cast<std::int64_t>(i) / width, wrong(a, i));
    for (std::size_t i = 0; i < a.got[0].size() && width == cols_; ++i)
      if (rows.wrong(i / static_cast<std::size_t>(width)))
        mark(columns_, static_cast<std::int64_t>(i) % width, wrong(a, i));
    return rows;
  }

  // Which column of its group (or of the row) is heavy in a row, asked for columns of one width from `first`
  // on; -1: none.
  std::int64_t heavy_in(std::int64_t row, std::int64_t group) const {
    if (!quantises_) return row;
    // Another in every group, without a step from one to the next that a fault could have, too.
    return (row +
            static_cast<std::int64_t>(Stream(9, "places").below(static_cast<std::size_t>(group), 1024))) %
           group_;
  }

  std::optional<Run> heavy_columns() {
    const std::int64_t most = std::max<std::int64_t>(1, kMostElements / cols_);
    const std::int64_t wide = (group_ + most - 1) / most;  // columns that are heavy together
    if (wide > 1 && quantises_) return std::nullopt;
    Axis axis(cols_);
    ask_heavy(0, wide, axis);
    const auto run = run_of(axis);
    if (!run || wide == 1) return run;
    if (run->of_each > 0) return std::nullopt;
    // Both ends of the run, a column at a time.
    for (const std::int64_t end : {run->first, run->last})
      ask_heavy(std::clamp<std::int64_t>(end - most / 2, 0, std::max<std::int64_t>(0, cols_ - most)), 1,
                axis);
    return run_of(axis);
  }

  void ask_heavy(std::int64_t first, std::int64_t wide, Axis& axis) {
    const std::int64_t most = std::max<std::int64_t>(1, kMostElements / cols_);
    const std::int64_t rows = quantises_ ? group_ : std::min(most, (cols_ - first + wide - 1) / wide);
    const auto is_heavy = [&](std::int64_t row, std::int64_t column) {
      const std::int64_t at = quantises_ ? column % group_ : column - first;
      return at >= 0 && at / wide == heavy_in(row, column / group_);
    };
    const Answer a =
        bench_.ask({{"rows", fmt::format("{}", rows)}}, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                     for (std::size_t i = 0; i < x.size(); ++i) {
                       const auto at = static_cast<std::int64_t>(i);
                       if (t.name == "sinks") x[i] = kLight;
                       if (t.name == "gamma") x[i] = static_cast<float>(1 + Stream(5, t.name).uniform(i));
                       if (t.name == "x") x[i] = number(is_heavy(at / cols_, at % cols_));
                     }
                   }));
    if (!a.ran || a.got.empty() || a.truths.empty()) return;
    const auto width = static_cast<std::int64_t>(a.got[0].size()) / rows;
    Axis asked(cols_);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t from = 0; from < cols_; from += group_)
        judge_group(a, row, from, width, is_heavy, asked);
    for (std::size_t i = 0; i < asked.marks.size(); ++i)
      if (asked.marks[i] != Mark::open) axis.marks[i] = asked.marks[i];
  }

  template <class Heavy>
  void judge_group(const Answer& a, std::int64_t row, std::int64_t from, std::int64_t width,
                   const Heavy& is_heavy, Axis& asked) const {
    const std::int64_t end = std::min(from + group_, cols_);
    if (width != cols_) {  // one number comes of a row
      for (std::int64_t c = from; c < end; ++c)
        if (is_heavy(row, c)) mark(asked, c, wrong(a, static_cast<std::size_t>(row)));
      return;
    }
    const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(row * width + c); };
    double heavy = 0;
    for (std::int64_t c = from; c < end; ++c)
      if (is_heavy(row, c)) heavy = std::max(heavy, std::fabs(a.truths[0].value[at(c)]));
    bool strays = false;
    for (std::int64_t c = from; c < end; ++c)
      if (!is_heavy(row, c) && std::fabs(a.got[0][at(c)] - a.truths[0].value[at(c)]) > heavy / 4 &&
          std::isfinite(a.got[0][at(c)]))
        mark(asked, c, true), strays = true;
    for (std::int64_t c = from; c < end && !strays; ++c)
      if (is_heavy(row, c) && std::fabs(a.truths[0].value[at(c)]) > Part::kSeen * a.truths[0].limit[at(c)])
        mark(asked, c, wrong(a, at(c)));
  }

  // The one column that a row's sum goes without: the first `count` columns have all the weight, of fewer and
  // fewer.
  std::optional<Run> column_of(std::int64_t row) {
    const auto wrong_with = [&](std::int64_t first, std::int64_t end) {
      const Answer a = bench_.ask(Edit([&](const TensorSpec& t, std::vector<float>& x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::int64_t c = static_cast<std::int64_t>(i) % cols_;
          if (t.name == "sinks") x[i] = kLight;
          if (t.name == "x") x[i] = number(c >= first && c < end);
        }
      }));
      if (!a.ran || a.got.empty()) return false;
      const auto width = static_cast<std::int64_t>(a.got[0].size()) / rows_;
      for (std::int64_t c = 0; c < width; ++c)
        if (wrong(a, static_cast<std::size_t>(row * width + c))) return true;
      return false;
    };
    std::int64_t right = 0, off = cols_;
    if (!wrong_with(0, cols_)) return std::nullopt;
    while (off - right > 1) {
      const std::int64_t middle = (right + off) / 2;
      (wrong_with(0, middle) ? off : right) = middle;
    }
    if (off < cols_ && wrong_with(off, cols_)) return std::nullopt;  // not alone
    return Run{off - 1, off - 1, 0};
  }

  Bench& bench_;
  std::string_view op_;
  std::int64_t rows_, cols_, group_ = 0;
  bool quantises_ = false;
  Axis columns_{cols_};
};

}  // namespace

std::string rows_place(Bench& bench) { return RowPlaces(bench).named(); }

}  // namespace assay::attribution
