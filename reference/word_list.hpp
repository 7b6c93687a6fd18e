// A list of words as the tables hold it: "any|even|away".
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace assay {

inline std::vector<std::string_view> listed_words(std::string_view list, char separator = '|') {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(separator, at), list.size());
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// An empty word is in no list.
inline bool has_word(std::string_view list, std::string_view word) {
  return !word.empty() && std::ranges::count(listed_words(list), word) > 0;
}

}  // namespace assay
