#include "reference/replay/schedule_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

// Digits alone, none of them a leading zero.
bool read(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool plain = !text.empty() && (text.size() == 1 || text.front() != '0');
  return error == std::errc() && end == text.data() + text.size() && plain;
}

}  // namespace

std::vector<SchedulePair> schedule_pairs(std::string_view text, std::string_view prefix) {
  constexpr std::string_view kBetween = " \t\n/";
  std::vector<SchedulePair> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    std::string_view pair = text.substr(at, end - at);
    at = end + 1;
    if (pair.empty() || !pair.starts_with(prefix)) continue;
    pair.remove_prefix(prefix.size());
    const std::size_t separator = pair.find_first_of("=:");
    if (separator == std::string_view::npos)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("schedule: '{}'; allowed: key=value pairs", excerpt(pair)));
    list.push_back({pair.substr(0, separator), pair.substr(separator + 1)});
  }
  return list;
}

std::string_view word_at(std::string_view allowed, std::size_t index) {
  return listed_words(allowed).at(index);
}

const ScheduleKey& ScheduleGrammar::key(std::string_view name) const {
  const auto found = std::ranges::find(keys_, name, &ScheduleKey::name);
  if (found == keys_.end()) throw unknown_name(fmt::format("key of {}", what_), name, names_of(keys_));
  return *found;
}

std::vector<SchedulePair> ScheduleGrammar::pairs(std::string_view text, std::string_view prefix) const {
  std::vector<SchedulePair> list = schedule_pairs(text, prefix);
  for (auto at = list.begin(); at != list.end(); ++at) {
    key(at->key);
    if (std::find_if(list.begin(), at, [&](const SchedulePair& p) { return p.key == at->key; }) != at)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: {}{} is given twice", what_, prefix_, excerpt(at->key)));
  }
  return list;
}

void ScheduleGrammar::refuse(std::string_view name, std::string_view value) const {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}{}={}; allowed: {}", what_, prefix_, name,
                                                          excerpt(value), key(name).allowed));
}

std::int64_t ScheduleGrammar::number(std::string_view name, std::string_view value) const {
  const std::string_view allowed = key(name).allowed;
  const std::size_t dots = allowed.find("..");
  std::int64_t least = 0, most = -1;
  if (dots == std::string_view::npos || !read(allowed.substr(0, dots), least) ||
      !read(allowed.substr(dots + 2), most))
    refuse(name, value);
  return number(name, value, least, most);
}

std::int64_t ScheduleGrammar::number(std::string_view name, std::string_view value, std::int64_t least,
                                     std::int64_t most) const {
  std::int64_t number = 0;
  if (!read(value, number) || number < least || number > most) refuse(name, value);
  return number;
}

std::size_t ScheduleGrammar::word(std::string_view name, std::string_view value) const {
  return word(name, value, listed_words(key(name).allowed));
}

std::size_t ScheduleGrammar::word(std::string_view name, std::string_view value,
                                  std::span<const std::string_view> words) const {
  const auto at = std::ranges::find(words, value);
  if (at == words.end()) refuse(name, value);
  return static_cast<std::size_t>(at - words.begin());
}

}  // namespace assay
