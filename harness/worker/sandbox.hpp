// What a worker is kept from when strangers' code runs in it (WorkerOptions::sandbox). SECURITY.md says in
// full what this does and does not prevent.
//
//   processes  a PID namespace: nothing outside can be seen, signalled or traced, and nothing in it outlives
//              its first process
//   network    a network namespace without any interface that is up; of socket families those alone that it
//              isolates
//   files      every mount is read-only but `scratch`, and landlock refuses to open anything else for
//              writing: the devices too, but for /dev/null and its like and for GPUs (/dev/nvidia*, /dev/dri,
//              /dev/kfd, /dev/accel), which are driven by writing and by ioctl. Reading is not restricted.
//   kernel     no capabilities, no new privileges, and a seccomp filter without mounts, namespaces, bpf,
//              keys, tracing, io_uring and modules
//   memory     RLIMIT_AS for each process, the mapped tensors included; files of at most kSandboxFileBytes;
//              and the kernel, when it is out of memory, ends these processes before the judge
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace assay {

inline constexpr std::int64_t kSandboxFileBytes = std::int64_t{1} << 30;
inline constexpr std::int64_t kSandboxTasks =
    4096;  // processes and threads; the kernel holds no root user to it

struct Sandbox {
  std::string
      scratch;  // an absolute path of a folder: what may be written. TMPDIR and XDG_CACHE_HOME then name it
  // Address space of each process; 0 for no limit. CUDA reserves far more than it uses: give it none.
  std::int64_t memory_bytes = 0;
};

// Called by a process of one thread that has not started the worker yet. It returns in a child of the caller,
// which is the first process of the PID namespace and must reap what is orphaned in it; the caller itself
// waits in here, holds no descriptor, and ends as that child ends. Killing the caller kills all.
// The reason when the kernel refuses any part of it: then nothing may be started, and the process is good for
// nothing but to pass the reason on.
std::optional<std::string> enter_sandbox(const Sandbox& sandbox);

// The seccomp filter alone, for this process and its children; needs PR_SET_NO_NEW_PRIVS.
std::optional<std::string> install_system_call_filter();

}  // namespace assay
