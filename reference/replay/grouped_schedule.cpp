#include "reference/replay/grouped_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "reference/near_names.hpp"
#include "reference/replay/schedule_text.hpp"

namespace assay {
namespace {

constexpr std::int64_t kMostRows = 65536;

std::int64_t rows_in_group(std::string_view text) {
  std::int64_t rows = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc() || end != text.data() + text.size() || rows < 2 || rows > kMostRows)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: rows={}; allowed: 2..{}", excerpt(text), kMostRows));
  return rows;
}

}  // namespace

GroupedSchedule parse_grouped_schedule(std::string_view text, std::string_view prefix) {
  constexpr std::string_view kLeft = "left.";
  GroupedSchedule s;
  std::string own, left;
  const auto add = [](std::string& to, std::string_view key, std::string_view value) {
    to += fmt::format("{}{}={}", to.empty() ? "" : " ", key, value);
  };
  const std::vector<SchedulePair> pairs = schedule_pairs(text, prefix);
  const auto is_replaced = [&](std::string_view key) {
    return std::ranges::any_of(pairs, [&](const SchedulePair& p) {
      return p.key.starts_with(kLeft) && p.key.substr(kLeft.size()) == key;
    });
  };
  bool has_left = false;
  for (const SchedulePair& p : pairs) {
    if (p.key == "rows") {
      if (s.rows != 1) throw InputError(InputErrorKind::bad_value, "schedule: rows is given twice");
      s.rows = rows_in_group(p.value);
    } else if (p.key.starts_with(kLeft)) {
      has_left = true;
      add(left, p.key.substr(kLeft.size()), p.value);
    } else {
      add(own, p.key, p.value);
      if (!is_replaced(p.key)) add(left, p.key, p.value);
    }
  }
  if (has_left != (s.rows > 1))
    throw InputError(InputErrorKind::bad_value,
                     has_left
                         ? "schedule: left.* without rows; wanted: rows=N, of a group"
                         : "schedule: rows without left.*; wanted: what is other in the rows that are left");
  s.grouped = parse_schedule(own);
  s.left = parse_schedule(left);
  if (s.rows > 1 && s.grouped == s.left)
    throw InputError(InputErrorKind::bad_value,
                     "schedule: left.* says what the others say; wanted: no rows and no left.*");
  return s;
}

std::string print_schedule(const GroupedSchedule& s, std::string_view prefix) {
  std::string text = print_schedule(s.grouped, prefix);
  if (s.rows == 1) return text;
  const std::string own = print_schedule(s.grouped), left = print_schedule(s.left);
  const auto value_in = [](const std::string& printed, const ScheduleKey& key) {
    const std::vector<SchedulePair> pairs = schedule_pairs(printed, "");
    const auto found = std::ranges::find(pairs, key.name, &SchedulePair::key);
    return std::string(found == pairs.end() ? key.fallback : found->value);
  };
  text = fmt::format("{}rows={} {}", prefix, s.rows, text);
  for (const ScheduleKey& key : schedule_keys())
    if (const std::string value = value_in(left, key); value != value_in(own, key))
      text += fmt::format(" {}left.{}={}", prefix, key.name, value);
  return text;
}

ReplayOperand rows_of(const ReplayOperand& from, const std::vector<std::int64_t>& which) {
  ReplayOperand rows{static_cast<std::int64_t>(which.size()), from.k, from.format, {}, {}};
  const auto blocks =
      static_cast<std::int64_t>(from.block_scales.size()) / std::max<std::int64_t>(from.rows, 1);
  for (const std::int64_t r : which) {
    const auto at = from.values.begin() + r * from.k;
    rows.values.insert(rows.values.end(), at, at + from.k);
    const auto scale = from.block_scales.begin() + r * blocks;
    rows.block_scales.insert(rows.block_scales.end(), scale, scale + blocks);
  }
  return rows;
}

std::vector<double> replay_sums(const GroupedSchedule& s, ReplayOperand a, ReplayOperand b) {
  const std::int64_t whole = a.rows - a.rows % s.rows;
  if (whole == a.rows) return GemmReplay(std::move(a), std::move(b)).sums(s.grouped);
  if (whole == 0) return GemmReplay(std::move(a), std::move(b)).sums(s.left);
  std::vector<std::int64_t> all(static_cast<std::size_t>(a.rows));
  std::iota(all.begin(), all.end(), 0);
  const auto border = all.begin() + whole;
  std::vector<double> sums = GemmReplay(rows_of(a, {all.begin(), border}), b).sums(s.grouped);
  const std::vector<double> more = GemmReplay(rows_of(a, {border, all.end()}), std::move(b)).sums(s.left);
  sums.insert(sums.end(), more.begin(), more.end());
  return sums;
}

}  // namespace assay
