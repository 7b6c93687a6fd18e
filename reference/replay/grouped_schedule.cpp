#include "reference/replay/grouped_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "reference/arithmetic/keys.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::int64_t kMostRows = 65536;

std::int64_t count_of(std::string_view key, std::string_view text) {
  std::int64_t rows = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '0' || rows < 2 ||
      rows > kMostRows)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: {}{}; allowed: 2..{}", key, excerpt(text), kMostRows));
  return rows;
}

// The pairs whose keys begin with `prefix` in place of those of the same name in `own`.
std::string replaced(const std::vector<KeyPair>& own, const std::vector<KeyPair>& pairs,
                     std::string_view prefix) {
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  };
  for (const KeyPair& p : own)
    if (std::ranges::none_of(pairs, [&](const KeyPair& q) {
          return q.key.starts_with(prefix) && q.key.substr(prefix.size()) == p.key;
        }))
      add(p.key, p.value);
  for (const KeyPair& q : pairs)
    if (q.key.starts_with(prefix)) add(q.key.substr(prefix.size()), q.value);
  return text;
}

// What `other` says where it says something else than `own`, each key behind `prefix`.
std::string differences(const Schedule& own, const Schedule& other, std::string_view prefix) {
  const std::string mine = print_schedule(own), theirs = print_schedule(other);
  const auto value_in = [](const std::string& printed, const KeySpec& key) {
    const std::vector<KeyPair> pairs = key_pairs("schedule", printed);
    const auto found = std::ranges::find(pairs, key.name, &KeyPair::key);
    return std::string(found == pairs.end() ? key.fallback : found->value);
  };
  std::string text;
  for (const KeySpec& key : schedule_keys())
    if (const std::string value = value_in(theirs, key); value != value_in(mine, key))
      text += fmt::format(" {}{}={}", prefix, key.name, value);
  return text;
}

}  // namespace

GroupedSchedule parse_grouped_schedule(std::string_view text, std::string_view prefix) {
  constexpr std::string_view kLeft = "left.", kSecond = "second.", kBelow = "below";
  GroupedSchedule s;
  const std::vector<KeyPair> pairs = key_pairs("schedule", text, prefix);
  std::vector<KeyPair> own;
  std::vector<std::string_view> belows;  // "below16."
  bool has_left = false, has_second = false;
  for (const KeyPair& p : pairs) {
    if (p.key == "rows" || p.key == "columns") {
      if (s.rows != 1 || s.columns != 1)
        throw InputError(InputErrorKind::bad_value,
                         "schedule: rows and columns are given, or one twice; allowed: one of them, once");
      (p.key == "rows" ? s.rows : s.columns) = count_of(fmt::format("{}=", p.key), p.value);
    } else if (p.key.starts_with(kLeft)) {
      has_left = true;
    } else if (p.key.starts_with(kSecond)) {
      has_second = true;
    } else if (const std::size_t dot = p.key.find('.');
               p.key.starts_with(kBelow) && dot != std::string_view::npos) {
      if (const std::string_view head = p.key.substr(0, dot + 1);
          std::ranges::find(belows, head) == belows.end())
        belows.push_back(head);
    } else {
      own.push_back(p);
    }
  }
  const bool groups = s.rows > 1 || s.columns > 1;
  if (has_left != groups)
    throw InputError(
        InputErrorKind::bad_value,
        has_left ? "schedule: left.* without rows or columns; wanted: rows=N or columns=N, of a group"
                 : "schedule: rows or columns without left.*; wanted: what is other in those that are left");
  if (has_second && s.columns == 1)
    throw InputError(InputErrorKind::bad_value,
                     "schedule: second.* without columns; wanted: columns=N, of a group");
  s.grouped = parse_schedule(replaced(own, {}, kLeft));
  const std::string left = replaced(own, pairs, kLeft);
  s.left = parse_schedule(left);
  if (has_second) s.second = parse_schedule(replaced(key_pairs("schedule", left), pairs, kSecond));
  if ((groups && s.grouped == s.left) || s.second == s.left)
    throw InputError(InputErrorKind::bad_value,
                     "schedule: left.* or second.* says what the others say; wanted: none of it");
  for (const std::string_view head : belows) {
    const std::string_view number = head.substr(kBelow.size(), head.size() - kBelow.size() - 1);
    s.below.emplace_back(count_of(kBelow, number.empty() ? "0" : number),
                         parse_schedule(replaced(own, pairs, head)));
    if (!groups && s.below.back().second == s.grouped)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("schedule: {}* says what the others say; wanted: none of it", head));
  }
  std::ranges::sort(s.below, {}, &std::pair<std::int64_t, Schedule>::first);
  return s;
}

std::string print_schedule(const GroupedSchedule& s, std::string_view prefix) {
  std::string text = print_schedule(s.grouped, prefix);
  if (s.rows > 1) {
    text = fmt::format("{}rows={} {}", prefix, s.rows, text);
    text += differences(s.grouped, s.left, fmt::format("{}left.", prefix));
  }
  if (s.columns > 1) {
    text = fmt::format("{}columns={} {}", prefix, s.columns, text);
    text += differences(s.grouped, s.left, fmt::format("{}left.", prefix));
    if (s.second) text += differences(s.left, *s.second, fmt::format("{}second.", prefix));
  }
  for (const auto& [most, schedule] : s.below) {
    const std::string head = fmt::format("{}below{}.", prefix, most);
    const std::string other = differences(s.grouped, schedule, head);
    text += other.empty() ? fmt::format(" {}acc={}", head, schedule.acc) : other;
  }
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

namespace {

// Columns of one schedule together.
std::vector<double> by_columns(const GroupedSchedule& s, const ReplayOperand& a, const ReplayOperand& b) {
  std::vector<double> sums(static_cast<std::size_t>(a.rows * b.rows));
  for (const Schedule* each : s.all()) {
    std::vector<std::int64_t> columns;
    for (std::int64_t j = 0; j < b.rows; ++j)
      if (&s.of(0, a.rows, j, b.rows) == each) columns.push_back(j);
    if (columns.empty()) continue;
    const std::vector<double> some = GemmReplay(a, rows_of(b, columns)).sums(*each);
    for (std::size_t at = 0; at < some.size(); ++at)
      sums[at / columns.size() * static_cast<std::size_t>(b.rows) +
           static_cast<std::size_t>(columns[at % columns.size()])] = some[at];
  }
  return sums;
}

}  // namespace

std::vector<double> replay_sums(const GroupedSchedule& s, ReplayOperand a, ReplayOperand b) {
  if (!s.below.empty() && a.rows < s.below.back().first) {
    const Schedule& alone = s.of(0, a.rows);
    return GemmReplay(std::move(a), std::move(b)).sums(alone);
  }
  if (s.columns > 1) return by_columns(s, a, b);
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
