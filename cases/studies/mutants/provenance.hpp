// What made a result: the command, and the commit of the sources.
#pragma once

#include <string>

namespace assay {

// The name, and the words of the command line behind it.
std::string command_line(const std::string& name, int argc, const char* const* argv);
// Of the source tree that this program was built from, with "-dirty" where it differs; "" when there is none
// any more.
std::string source_commit();

}  // namespace assay
