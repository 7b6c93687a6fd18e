#include "cases/studies/identify/attention_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

namespace assay {

ReplayedHead::ReplayedHead(const AttentionHead& head)
    : head_(head), replay_({head.keys, head.d, head.dv, head.k, head.v, head.format}) {}

ReplayedRows ReplayedHead::run(const AttentionSchedule& how, std::int64_t rows) const {
  const std::int64_t skipped = head_.rows - rows;
  ReplayQueries queries{rows,
                        std::span<const float>(head_.q).subspan(static_cast<std::size_t>(skipped * head_.d)),
                        head_.scale,
                        {}};
  queries.first = head_.keys - rows;
  if (!head_.visible.empty())
    queries.visible = [this, skipped](std::int64_t i, std::int64_t j) {
      return head_.visible[static_cast<std::size_t>((skipped + i) * head_.keys + j)] != 0;
    };
  return replay_.run(how, queries);
}

std::int64_t ReplayedHead::unequal(const AttentionSchedule& how, std::int64_t rows) const {
  const ReplayedRows out = run(how, rows);
  const auto first = static_cast<std::size_t>((head_.rows - rows) * head_.dv);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < out.out.size(); ++i)
    count +=
        out.known[i / static_cast<std::size_t>(head_.dv)] != 0 && out.out[i] == head_.got[first + i] ? 0 : 1;
  return count;
}

AttentionVerdict judge_attention(const AttentionAsk& ask, const AttentionSchedule& schedule,
                                 std::int64_t outputs) {
  AttentionVerdict v;
  for (std::uint64_t seed = 1; seed <= 2 || (v.compared < outputs && seed <= 1000); ++seed) {
    const std::optional<AttentionAnswer> answer = ask(seed, AttentionDesign::drawn);
    if (!answer) throw std::runtime_error("the kernel does not take this call");
    for (std::size_t h = 0; h < answer->heads.size(); ++h) {
      const AttentionHead& head = answer->heads[h];
      const ReplayedHead replayed(head);
      const std::int64_t unequal = replayed.unequal(schedule);
      const bool first = unequal > 0 && v.unequal == 0;
      v.compared += head.outputs(), v.unequal += unequal;
      if (!first) continue;
      const ReplayedRows want = replayed.run(schedule, head.rows);
      for (std::size_t i = 0; i < want.out.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(head.dv);
        if (want.known[row] != 0 && want.out[i] == head.got[i]) continue;
        v.line = answer->line, v.head = static_cast<std::int64_t>(h), v.row = static_cast<std::int64_t>(row);
        v.column = static_cast<std::int64_t>(i) % head.dv;
        v.got = static_cast<double>(head.got[i]), v.want = static_cast<double>(want.out[i]);
        break;
      }
      for (const auto& [field, other] : tampered(schedule, head)) {
        if (replayed.unequal(other) > 0) continue;
        const std::string text = " " + spell_out(other) + " ";
        const std::size_t at = text.find(" " + field + "=") + 1;
        v.instead = text.substr(at, text.find(' ', at) - at);
        break;
      }
    }
  }
  return v;
}

std::string describe(const AttentionVerdict& v, const AttentionSchedule& schedule) {
  if (v.ok())
    return fmt::format("pass: {} of {} stored outputs equal in every bit\n", v.compared, v.compared);
  return fmt::format(
      "wrong: {} of {} stored outputs differ from the declared schedule\n  under  {}\n"
      "  at     head {}, row {}, column {}\n  got    {:.9g}    want {:.9g}\n  step   {}\n"
      "  repro  assay identify '{}' --schedule '{}'\n",
      v.unequal, v.compared, print_schedule(schedule), v.head, v.row, v.column, v.got, v.want,
      v.instead.empty() ? "unknown: no other value of one field gives every bit of that head"
                        : v.instead + " gives every bit of that head",
      v.line, print_schedule(schedule));
}

AttentionInvariance attention_invariance(const std::vector<AttentionRegion>& regions, std::int64_t outputs) {
  for (const AttentionRegion& r : regions)
    if (!r.card.schedule) return {"unknown", fmt::format("no schedule was found at '{}'", r.card.subject)};
  const bool same_keys = std::ranges::adjacent_find(regions, [](const auto& a, const auto& b) {
                           return a.keys != b.keys;
                         }) == regions.end();
  std::string apart;
  bool cut = false;
  // Few outputs admit several schedules: the calls part only where no one's schedule has the bits of all.
  for (const AttentionRegion& candidate : regions) {
    const AttentionSchedule& schedule = *candidate.card.schedule;
    bool all = true;
    for (const AttentionRegion& other : regions) {
      if (*other.card.schedule == schedule) continue;
      const AttentionVerdict v = judge_attention(other.ask, schedule, outputs);
      if (v.ok()) continue;
      all = false;
      if (apart.empty())
        apart = fmt::format(
            "'{}' has {}, and '{}' does not: its head {}, row {}, column {} is {:.9g}, by that schedule "
            "{:.9g}",
            candidate.card.subject, print_schedule(schedule), v.line, v.head, v.row, v.column, v.got, v.want);
      break;
    }
    if (!all) continue;
    if (same_keys || schedule.split == 1)
      return {"proven", fmt::format("one schedule at all {} calls that were asked: {}", regions.size(),
                                    print_schedule(schedule))};
    cut = true;
  }
  if (cut)
    return {"unknown",
            "one schedule at all calls, but its parts are cut by the count of keys, which differs"};
  return {"refuted", apart};
}

}  // namespace assay
