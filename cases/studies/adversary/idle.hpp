// Words of contracts that say nothing of a call: whichever the kernel declares, it is judged alike.
#pragma once

#include <string>

namespace assay::adversary {

// The calls of a case line, one to a line of text, each with its idle words: those that move no value and
// no limit of any of the inputs that are tried, neither alone nor beside any one other word, and are not
// refused. Throws InputError for a line that is none.
std::string idle_words(const std::string& line);

}  // namespace assay::adversary
