#include "reference/near_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace assay {
namespace {

// Levenshtein distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out(text.substr(0, kMost));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  if (text.size() > kMost) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

std::string suggest(std::string_view given, const std::vector<std::string>& allowed) {
  std::string nearest;
  std::size_t best = std::max<std::size_t>(2, given.size() / 3) + 1;
  constexpr std::size_t kLongestName = 256;  // nothing that is longer is near to a name
  for (const auto& name : allowed) {
    if (given.size() > kLongestName) break;
    const std::size_t d = distance(given, name);
    if (d < best) best = d, nearest = name;
  }
  const std::string list = fmt::format("allowed: {}", fmt::join(allowed, " "));
  return nearest.empty() ? list : fmt::format("did you mean '{}'? {}", nearest, list);
}

InputError unknown_name(std::string_view what, std::string_view given,
                        const std::vector<std::string>& allowed) {
  return {InputErrorKind::unknown_name,
          fmt::format("no {} '{}'; {}", what, excerpt(given), suggest(given, allowed))};
}

}  // namespace assay
