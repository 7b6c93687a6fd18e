#include "cases/studies/identify/row_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cases/studies/identify/search.hpp"

namespace assay {

namespace {

// Whether the kernel's drawn outputs at `rows` are those of the schedule.
bool holds_at(RowSubject& subject, std::int64_t rows, std::int64_t cols, const RowSchedule& schedule) {
  const std::uint64_t seeds = rows < 16 ? 8 : 2;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::optional<RowAnswer> answer = subject.drawn(rows, cols, seed);
    if (!answer) return false;
    RowReplay replay(answer->in);
    if (replay.unequal(schedule, replay.sums(schedule), answer->got, 1) > 0) return false;
  }
  return true;
}

}  // namespace

RowInvariance row_invariance(RowSubject& subject, std::int64_t cols, const std::vector<RowRegion>& regions) {
  RowInvariance result{
      "proven", fmt::format("one schedule at all {} counts of rows that were asked", regions.size()), {}};
  for (const RowRegion& region : regions)
    if (!region.card.schedule)
      return {"unknown", fmt::format("no schedule was found at rows={}", region.rows), {}};
  for (std::size_t i = 1; i < regions.size(); ++i) {
    const RowSchedule &low = *regions[i - 1].card.schedule, &high = *regions[i].card.schedule;
    // Few rows admit several schedules: they part only where neither has the other's bits.
    if (low == high || holds_at(subject, regions[i - 1].rows, cols, high) ||
        holds_at(subject, regions[i].rows, cols, low))
      continue;
    if (result.verdict == "proven")
      result.detail =
          fmt::format("rows={} has {} and rows={} has {}: row 0 of '{}' and of '{}' are summed otherwise",
                      regions[i - 1].rows, print_schedule(low), regions[i].rows, print_schedule(high),
                      regions[i - 1].card.line, regions[i].card.line);
    result.verdict = "refuted";
    const auto border =
        halved_border(regions[i - 1].rows, regions[i].rows, [&](std::int64_t rows) -> std::optional<int> {
          const std::optional<RowAnswer> answer = subject.drawn(rows, cols, 1);
          if (!answer) return std::nullopt;
          RowReplay replay(answer->in);
          const bool as_low = replay.unequal(low, replay.sums(low), answer->got, 1) == 0;
          const bool as_high = replay.unequal(high, replay.sums(high), answer->got, 1) == 0;
          if (as_low == as_high) return std::nullopt;
          return as_low ? 0 : 1;
        });
    if (border) result.borders.push_back(*border);
  }
  return result;
}

std::string invariance_text(const RowInvariance& invariance) {
  std::string text;
  for (const SizeBorder& b : invariance.borders)
    text += fmt::format("  border   rows={} has the one schedule, rows={} the next\n", b.last, b.next);
  return text + fmt::format("  invariance over rows: {}: {}\n", invariance.verdict, invariance.detail);
}

RowVerdict judge_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols, const RowSchedule& schedule,
                      int seeds) {
  RowVerdict v;
  std::optional<RowAnswer> first;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::optional<RowAnswer> answer = subject.drawn(rows, cols, static_cast<std::uint64_t>(seed));
    if (!answer) throw std::runtime_error("the kernel does not take this shape");
    const std::vector<double> want = RowReplay(answer->in).outputs(schedule);
    const auto columns = static_cast<std::int64_t>(want.size()) / rows;
    v.compared += static_cast<std::int64_t>(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (same_number(want[i], answer->got[i]) || ++v.unequal > 1) continue;
      v.line = answer->line, v.got = answer->got[i], v.want = want[i];
      v.row = static_cast<std::int64_t>(i) / columns, v.column = static_cast<std::int64_t>(i) % columns;
    }
    if (v.unequal > 0 && !first) first = std::move(answer);
  }
  const bool vanishes =
      schedule.op != "softmax" || (schedule.word("temperature") == "none" && schedule.word("cap") == "none");
  if (v.ok() || schedule.op == "wht" || schedule.op == "layernorm" || !vanishes) return v;
  // What adds nothing: a zero, or a logit whose exponential is 0.
  const float nothing = schedule.op == "rmsnorm" ? 0.0F : -32768.0F;
  const auto differs = [&](std::int64_t t) {
    std::vector<float> x = first->in.x;
    for (std::int64_t r = 0; r < rows; ++r)
      std::fill(x.begin() + r * cols + t, x.begin() + (r + 1) * cols, nothing);
    const std::optional<RowAnswer> answer = subject.crafted(rows, cols, std::move(x), "a prefix");
    if (!answer) return false;
    RowReplay replay(answer->in);
    return replay.unequal(schedule, replay.sums(schedule), answer->got, 1) > 0;
  };
  std::int64_t same = 0, other = cols;
  if (!differs(other)) return v;
  while (other - same > 1) {
    const std::int64_t middle = same + (other - same) / 2;
    (differs(middle) ? other : same) = middle;
  }
  v.first_term = other - 1;
  return v;
}

std::string describe(const RowVerdict& v, const RowSchedule& schedule) {
  if (v.ok())
    return fmt::format("pass: {} of {} stored outputs equal in every bit\n", v.compared, v.compared);
  std::string text = fmt::format(
      "wrong: {} of {} stored outputs differ from the declared schedule\n  under  {}\n  at     y[{},{}]\n"
      "  got    {:.9g}    want {:.9g}\n",
      v.unequal, v.compared, print_schedule(schedule), v.row, v.column, v.got, v.want);
  if (v.first_term >= 0) text += fmt::format("  first  the bits part at term {}\n", v.first_term);
  return text +
         fmt::format("  repro  assay identify '{}' --schedule '{}'\n", v.line, print_schedule(schedule));
}

}  // namespace assay
