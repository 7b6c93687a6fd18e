#include "cases/studies/mutants/provenance.hpp"

#include <array>
#include <cstdio>

namespace assay {

std::string command_line(const std::string& name, int argc, const char* const* argv) {
  std::string text = name;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    text += " " + (word.empty() || word.find_first_of(" '\"") != std::string::npos ? "'" + word + "'" : word);
  }
  return text;
}

std::string source_commit() {
  FILE* pipe = popen("git -C '" ASSAY_SOURCE_DIR "' describe --always --dirty --abbrev=12 2>/dev/null", "r");
  if (pipe == nullptr) return "";
  std::array<char, 256> buffer{};
  std::string text;
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  pclose(pipe);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace assay
