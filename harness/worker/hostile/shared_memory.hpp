// How a hostile kernel finds the file behind the memory that it was given.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hostile {

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::uint64_t offset = 0, inode = 0;
};

inline Mapping mapping_of(const volatile void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  Mapping found;
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return found;
  char line[1024];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Mapping m;
    char* rest = line;
    m.begin = std::strtoull(rest, &rest, 16);
    m.end = std::strtoull(rest + 1, &rest, 16);
    m.offset = std::strtoull(rest + 6, &rest, 16);   // behind " rwxp "
    m.inode = std::strtoull(rest + 7, nullptr, 10);  // behind " 00:00 "
    if (wanted >= m.begin && wanted < m.end) found = m;
  }
  std::fclose(maps);
  return found;
}

inline std::uint64_t file_offset(const volatile void* address) {
  const Mapping m = mapping_of(address);
  return m.offset + (reinterpret_cast<std::uintptr_t>(address) - m.begin);
}

// The descriptor of the memory, or -1 when this process holds none.
inline int memory_descriptor(const volatile void* address) {
  const Mapping m = mapping_of(address);
  struct stat file{};
  for (int fd = 3; fd < 256; ++fd)
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_ino == m.inode) return fd;
  return -1;
}

}  // namespace hostile
