// What made a result: the command, the machine, the commit of the sources.
#pragma once

#include <string>

namespace assay {

// The name, and the words of the command line behind it.
std::string command_line(const std::string& name, int argc, const char* const* argv);
// "AMD EPYC 9R14, 2 cores": the model that /proc/cpuinfo names, and the cores that a program may use.
std::string machine();
// Of the source tree that this program was built from, with "-dirty" where it differs; "" when there is none
// any more.
std::string source_commit();

}  // namespace assay
