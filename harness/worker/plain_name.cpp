#include "harness/worker/plain_name.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "harness/worker/protocol.hpp"

extern char** environ;

namespace assay {

void take_plain_name(int argc, char** argv) {
  const char* given = std::getenv(std::string(kNameVariable).c_str());
  const std::string name = given != nullptr && *given != '\0' ? given : std::string(kPlainName);
  prctl(PR_SET_NAME, name.c_str());
  if (argc < 1) return;
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);  // the words lie behind each other
  const auto bytes = static_cast<std::size_t>(end - argv[0]);
  std::memset(argv[0], 0, bytes);
  std::memcpy(argv[0], name.data(), std::min(bytes, name.size()));
}

void forget_own_variables() {
  std::vector<char*> own;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with(kOwnVariables)) own.push_back(*entry);
  for (char* entry : own) {
    unsetenv(std::string(entry, std::strcspn(entry, "=")).c_str());
    std::memset(entry, 0, std::strlen(entry));
  }
}

}  // namespace assay
