// Error messages name what was meant: the allowed name nearest to the one given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/error.hpp"

namespace assay {

// A text as a message shows it: its first 80 bytes when it is longer, without control characters.
std::string excerpt(std::string_view text);

// The allowed name that was meant: what others call by the given one (fp16: f16), one that begins so, or the
// nearest; "" for none.
std::string nearest_name(std::string_view given, const std::vector<std::string>& allowed);

// "did you mean 'softmax'? allowed: ..."; "allowed: ..." when nothing is near.
std::string suggest(std::string_view given, const std::vector<std::string>& allowed);

// The refusal of a name that no list has: "no op 'sofmax'; did you mean ..."
InputError unknown_name(std::string_view what, std::string_view given,
                        const std::vector<std::string>& allowed);

// The names of a table's rows, as both want them.
template <typename Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace assay
