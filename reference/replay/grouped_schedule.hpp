// A product whose rows or columns are not all summed alike: kernels serve the rows that meet the same
// weights, or the columns of a row, in groups, and those that are left behind the last whole group by another
// loop.
//
//   rows=4 acc=f32 lanes=16 left.lanes=64 left.fold=16.32.8.4.2.1 left.tail=vector:16
//
// Of `count` rows that meet the same weights, row i with i < count - count mod rows has the schedule without
// left., the others the same with the keys of left. in place of its own. In matmul those are all rows of a;
// in moe the tokens of one expert, in the order of topk_ids. Without rows= there is one schedule.
//
//   columns=4 acc=f32 fma=yes lanes=16 head=1 tail=refold left.lanes=32 left.head_at=apart
//   left.tail=folded:16 second.lanes=16 second.tail=lanes
//
// The same of n columns, j < n - n mod columns; every second one of those that are left has the keys of
// second. in place of the others'.
//
//   acc=f32 fma=yes chunk=256 below2.chunk=0 below2.lanes=16 below2.head=1 below2.tail=refold below16.chunk=0
//   below16.lanes=16
//
// Where fewer than N rows meet the same weights, all of them have the schedule with the keys of belowN. in
// place of its own, of the least such N: a library calls another routine for few rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/replay/replay.hpp"
#include "reference/replay/schedule.hpp"

namespace assay {

struct GroupedSchedule {
  Schedule grouped, left;
  std::int64_t rows = 1, columns = 1;  // of a group; 1: each is one, and `left` is never used for them
  std::optional<Schedule> second = {};
  std::vector<std::pair<std::int64_t, Schedule>> below = {};  // of fewer rows than so many, ascending
  // Of column j of n in row i of `count`.
  const Schedule& of(std::int64_t i, std::int64_t count, std::int64_t j = 0, std::int64_t n = 1) const {
    for (const auto& [most, schedule] : below)
      if (count < most) return schedule;
    const std::int64_t whole = n - n % columns;
    if (columns > 1 && j >= whole) return (j - whole) % 2 == 1 && second ? *second : left;
    return i < count - count % rows ? grouped : left;
  }
  std::vector<const Schedule*> all() const {
    std::vector<const Schedule*> list{&grouped, &left};
    if (second) list.push_back(&*second);
    for (const auto& each : below) list.push_back(&each.second);
    return list;
  }
  bool operator==(const GroupedSchedule&) const = default;
};

// `text` as above, each key behind `prefix`; keys that do not begin with it are left alone. Throws InputError
// unknown_name or bad_value, as parse_schedule does, where only one of rows or columns and left.* is given,
// where both are, and where left.*, second.* or belowN.* says nothing else than what it stands for.
GroupedSchedule parse_grouped_schedule(std::string_view text, std::string_view prefix = "");
// Canonical: parse(print(s)) == s.
std::string print_schedule(const GroupedSchedule& schedule, std::string_view prefix = "");

// sums[m,n] = sum_k a[m,k] b[n,k] of m rows that meet the same weights, each row by its schedule, before the
// epilogue. Throws InputError as GemmReplay::sums does.
std::vector<double> replay_sums(const GroupedSchedule& schedule, ReplayOperand a, ReplayOperand b);

// The rows `which` of an operand [rows, k], in that order.
ReplayOperand rows_of(const ReplayOperand& operand, const std::vector<std::int64_t>& which);

}  // namespace assay
