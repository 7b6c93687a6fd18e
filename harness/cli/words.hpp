// Lists in one word of a command line: "red,lost,path".
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace assay {

// The words between the commas, empty ones too, for their owner to refuse.
inline std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace assay
