// The text of a schedule as pairs, for the grammars that are made of it.
#pragma once

#include <string_view>
#include <vector>

namespace assay {

struct SchedulePair {
  std::string_view key, value;  // of the text, without the prefix
};

// The pairs of `text` whose keys begin with `prefix`, in their order. Throws InputError bad_value for one without = or :.
std::vector<SchedulePair> schedule_pairs(std::string_view text, std::string_view prefix);

}  // namespace assay
