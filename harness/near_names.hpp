// Error messages name what was meant: the allowed names nearest to the one given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// "did you mean softmax?" or "allowed: a, b, c" when nothing is near.
std::string suggest(std::string_view given, const std::vector<std::string>& allowed);

}  // namespace assay
