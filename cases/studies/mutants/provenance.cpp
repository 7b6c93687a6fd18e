#include "cases/studies/mutants/provenance.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <thread>

namespace assay {

std::string command_line(const std::string& name, int argc, const char* const* argv) {
  std::string text = name;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    text += " " + (word.empty() || word.find_first_of(" '\"") != std::string::npos ? "'" + word + "'" : word);
  }
  return text;
}

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "processor unknown";
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
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
