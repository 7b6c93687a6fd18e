#include "cases/studies/identify/replay_level.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cases/studies/identify/search.hpp"
#include "reference/error.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

std::vector<double> wanted(const Answer& answer, const GroupedSchedule& s, const std::string& stored_as) {
  return stored_outputs(answer, replay_sums(s, answer.a, answer.b), s.grouped.scales, stored_as);
}

}  // namespace

ReplayVerdict judge_by_replay(GemmSubject& subject, const GemmShape& shape, const GroupedSchedule& schedule,
                              int seeds) {
  if (std::ranges::any_of(schedule.all(),
                          [&](const Schedule* s) { return s->scales != schedule.grouped.scales; }))
    throw InputError(InputErrorKind::bad_value,
                     "schedule: other scales in some rows or columns; allowed here: one order for all");
  ReplayVerdict v;
  std::optional<Answer> first;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::optional<Answer> answer = subject.drawn(shape, static_cast<std::uint64_t>(seed));
    if (!answer) throw std::runtime_error("the kernel does not take this shape");
    const std::vector<double> want = wanted(*answer, schedule, subject.stored_as());
    v.compared += static_cast<std::int64_t>(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (same_number(want[i], answer->got[i])) continue;
      if (++v.unequal > 1) continue;
      v.line = answer->line, v.got = answer->got[i], v.want = want[i];
      v.row = static_cast<std::int64_t>(i) / answer->b.rows,
      v.column = static_cast<std::int64_t>(i) % answer->b.rows;
    }
    if (v.unequal > 0 && !first) first = std::move(answer);
  }
  if (v.ok() || !first || !first->a.block_scales.empty()) return v;
  // Zeros behind term t - 1: what comes before is summed as it was. A zero product changes no partial sum.
  const auto differs = [&](std::int64_t t) -> std::optional<bool> {
    std::vector<float> a = first->a.values;
    for (std::int64_t r = 0; r < shape.m; ++r)
      std::fill(a.begin() + r * shape.k + t, a.begin() + (r + 1) * shape.k, 0.0F);
    const std::optional<Answer> answer = subject.crafted(shape, std::move(a), first->b.values, "a prefix");
    if (!answer) return std::nullopt;
    // Any output: one of them alone may have lost the difference again in a later sum.
    const std::vector<double> want = wanted(*answer, schedule, subject.stored_as());
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!same_number(want[i], answer->got[i])) return true;
    return false;
  };
  std::int64_t same = 0, other = shape.k;
  if (differs(other) != std::optional<bool>(true))
    return v;  // the scales, or a format that cannot be crafted
  while (other - same > 1) {
    const std::int64_t middle = same + (other - same) / 2;
    (differs(middle) == std::optional<bool>(true) ? other : same) = middle;
  }
  v.first_term = other - 1;
  v.first_step = name_of_step(schedule.of(v.row, shape.m, v.column, shape.n), shape.k, other - 1, other);
  return v;
}

std::string describe(const ReplayVerdict& v, const GroupedSchedule& schedule) {
  if (v.ok())
    return fmt::format("pass: {} of {} stored outputs equal in every bit\n", v.compared, v.compared);
  std::string text =
      fmt::format("wrong: {} of {} stored outputs differ from the declared schedule\n  under  {}\n",
                  v.unequal, v.compared, print_schedule(schedule));
  text += fmt::format("  at     y[{},{}]\n  got    {:.9g}    want {:.9g}\n", v.row, v.column, v.got, v.want);
  if (!v.first_step.empty()) text += fmt::format("  first  the bits first differ when {}\n", v.first_step);
  return text +
         fmt::format("  repro  assay identify '{}' --schedule '{}'\n", v.line, print_schedule(schedule));
}

}  // namespace assay
