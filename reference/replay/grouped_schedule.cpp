#include "reference/replay/grouped_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::int64_t kMostRows = 65536;

struct Pair {
  std::string_view key, value;
};

// The pairs behind `prefix`, those behind "left." among them.
std::vector<Pair> pairs_of(std::string_view text, std::string_view prefix) {
  std::vector<Pair> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" /", at), text.size());
    std::string_view pair = text.substr(at, end - at);
    at = end + 1;
    if (pair.empty() || !pair.starts_with(prefix)) continue;
    pair.remove_prefix(prefix.size());
    const std::size_t separator = pair.find_first_of("=:");
    const bool whole = separator != std::string_view::npos;
    list.push_back({pair.substr(0, separator), whole ? pair.substr(separator + 1) : std::string_view()});
  }
  return list;
}

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
  const std::vector<Pair> pairs = pairs_of(text, prefix);
  const auto is_replaced = [&](std::string_view key) {
    return std::ranges::any_of(
        pairs, [&](const Pair& p) { return p.key.starts_with(kLeft) && p.key.substr(kLeft.size()) == key; });
  };
  bool has_left = false;
  for (const Pair& p : pairs) {
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
    const std::vector<Pair> pairs = pairs_of(printed, "");
    const auto found = std::ranges::find(pairs, key.name, &Pair::key);
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
