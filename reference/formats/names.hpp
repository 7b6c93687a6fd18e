// "unknown format 'e4m3fm'; near: e4m3fn, e4m3fnuz": the refusal of a name that no list has.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Levenshtein distance: insertions, deletions, replacements.
inline int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The message names the rows nearest to `name` (at most four, nearest first).
template <typename Rows>
std::string unknown_name_message(std::string_view what, std::string_view name, const Rows& rows) {
  std::vector<std::pair<int, std::string_view>> near;
  for (const auto& row : rows) near.emplace_back(edit_distance(name, row.name), row.name);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > 4) near.resize(4);
  std::string text = "unknown ";
  text.append(what).append(" '").append(name).append("'; near:");
  for (const auto& [distance, candidate] : near) text.append(" ").append(candidate);
  return text;
}

}  // namespace assay
