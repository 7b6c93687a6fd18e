#include "harness/witness/cpu/generated.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>

namespace assay::cpu_witness {
namespace {

constexpr const char* kFolderOfPerf = "/tmp";  // wherever temporary files are otherwise
std::string map_file() { return std::string(kFolderOfPerf) + "/perf-" + std::to_string(getpid()) + ".map"; }

struct Stamp {
  ino_t file;
  timespec changed;
  bool operator==(const Stamp& other) const {
    return file == other.file && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};
std::optional<Stamp> stamp_of_map() {
  struct stat found{};
  if (lstat(map_file().c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return Stamp{found.st_ino, found.st_mtim};
}

std::optional<Stamp> g_older;
int g_map = -1;
std::string g_torn;  // a line whose end is not written yet

}  // namespace

void forget_older_map() { g_older = stamp_of_map(); }

std::vector<Generated> newly_generated() {
  std::vector<Generated> found;
  if (g_map < 0) {
    const auto stamp = stamp_of_map();
    if (!stamp || stamp == g_older) return found;
    g_map = open(map_file().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (g_map < 0) return found;
    unlink(map_file().c_str());
  }
  std::array<char, 65536> piece{};
  for (ssize_t n = 0; (n = read(g_map, piece.data(), piece.size())) > 0;)
    g_torn.append(piece.data(), static_cast<std::size_t>(n));
  for (std::size_t end = 0; (end = g_torn.find('\n')) != std::string::npos; g_torn.erase(0, end + 1)) {
    std::istringstream line(g_torn.substr(0, end));
    Generated one;
    if (line >> std::hex >> one.entry >> one.bytes >> std::ws && std::getline(line, one.name))
      found.push_back(std::move(one));
  }
  return found;
}

CodeRanges::CodeRanges() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, end = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &first, &end, rights.data()) == 3 && rights[0] == 'r' &&
        rights[2] == 'x')
      ranges_.push_back({first, end, rights[1] == 'w'});
  }
}

const CodeRanges::Range* CodeRanges::at(std::uintptr_t address) const {
  const auto found = std::ranges::find_if(
      ranges_, [&](const Range& range) { return range.first <= address && address < range.end; });
  return found == ranges_.end() ? nullptr : &*found;
}
bool CodeRanges::contain(std::uintptr_t first, std::size_t bytes) const {
  const Range* range = at(first);
  return range != nullptr && bytes <= range->end - first;
}
bool CodeRanges::writable(std::uintptr_t at_address) const {
  const Range* range = at(at_address);
  return range != nullptr && range->writable;
}

}  // namespace assay::cpu_witness
