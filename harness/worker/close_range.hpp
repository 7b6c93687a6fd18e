// close_range() of the kernel: glibc has it since 2.34 only, the kernel since 5.9.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

namespace assay {

// Closes the descriptors `first` to `last`; on_exec: no program that is started inherits them, instead. An
// older kernel's are looked up in /proc.
inline void close_descriptors(unsigned first, unsigned last, bool on_exec = false) {
  constexpr unsigned kOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  if (first > last || syscall(SYS_close_range, first, last, on_exec ? kOnExec : 0U) == 0 || errno != ENOSYS)
    return;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  std::vector<int> found;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(entry->d_name, &end, 10);
    if (end != entry->d_name && number >= first && number <= last &&
        static_cast<int>(number) != dirfd(folder))
      found.push_back(static_cast<int>(number));
  }
  closedir(folder);
  for (const int descriptor : found) {
    if (on_exec)
      fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    else
      close(descriptor);
  }
}

}  // namespace assay
