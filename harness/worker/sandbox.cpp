#include "harness/worker/sandbox.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "harness/worker/close_range.hpp"
#include "harness/worker/process.hpp"

// <sys/mount.h> and <linux/mount.h> define the same names in glibc 2.36, so this one call is declared by
// hand.
extern "C" int mount(const char* source, const char* target, const char* type, unsigned long flags,
                     const void* data);

namespace assay {
namespace {

std::string refused(const std::string& what, int error = errno) {
  return "no sandbox: " + what + ": " + std::generic_category().message(error);
}

bool write_text(const char* path, std::string_view text) {
  const Descriptor file(open(path, O_WRONLY | O_CLOEXEC));
  return file.get() >= 0 && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::optional<std::string> leave_namespaces() {
  // Owner and group stay who they are, so that the same files can be read as without a sandbox.
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
    return refused(
        "the kernel refuses new namespaces (see user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns)");
  if (!write_text("/proc/self/setgroups", "deny") ||
      !write_text("/proc/self/uid_map", user + " " + user + " 1") ||
      !write_text("/proc/self/gid_map", group + " " + group + " 1"))
    return refused("cannot map this user into the new user namespace");
  return std::nullopt;
}

// landlock does not cover chmod, chown, times and extended attributes; a read-only mount does.
std::optional<std::string> make_mounts_read_only(const std::string& scratch) {
  constexpr unsigned long kPrivate = 1UL << 18, kRecursive = 1UL << 14;  // MS_PRIVATE, MS_REC
  if (mount(nullptr, "/", nullptr, kPrivate | kRecursive, nullptr) != 0) return refused("private mounts");
  const Descriptor tree(static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, scratch.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (tree.get() < 0) return refused("cannot mount " + scratch);
  mount_attr plain{};  // what is left in it runs as whoever starts it, and is no device
  plain.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  if (syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &plain, sizeof plain) != 0)
    return refused("cannot mount " + scratch);
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof read_only) != 0)
    return refused("read-only mounts");
  if (syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, scratch.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return refused("cannot mount " + scratch);
  return std::nullopt;
}

// Of the new PID namespace: the judge's would show processes under numbers that mean nothing here. Read-only,
// because a root user without capabilities still owns /proc/sys.
std::optional<std::string> mount_proc() {
  constexpr unsigned long kReadOnly = 1, kNoSuid = 2, kNoDev = 4, kNoExec = 8;
  if (mount("proc", "/proc", "proc", kReadOnly | kNoSuid | kNoDev | kNoExec, nullptr) != 0)
    return refused("a /proc of its own");
  return std::nullopt;
}

// Rights of <linux/landlock.h> that the headers of Debian 12 do not know, by the version of landlock that
// brought them.
constexpr std::uint64_t kRefer = 1U << 13, kTruncate = 1U << 14, kIoctlOfDevices = 1U << 15;
constexpr std::uint64_t kMakeAndRemove =
    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

class WriteRules {
 public:
  std::optional<std::string> begin() {
    const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) return refused("landlock");
    handled_ = LANDLOCK_ACCESS_FS_WRITE_FILE | kMakeAndRemove;
    if (version >= 2) handled_ |= kRefer;
    if (version >= 3) handled_ |= kTruncate;
    if (version >= 5) handled_ |= kIoctlOfDevices;
    landlock_ruleset_attr rules{};
    rules.handled_access_fs = handled_;
    ruleset_.reset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0)));
    return ruleset_.get() < 0 ? std::optional(refused("landlock")) : std::nullopt;
  }
  // A path that is not here needs no rule.
  bool allow(const std::string& path, std::uint64_t access) const {
    const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (place.get() < 0) return errno == ENOENT || errno == EACCES;
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access & handled_;
    rule.parent_fd = place.get();
    return syscall(SYS_landlock_add_rule, ruleset_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  }
  bool enforce() const { return syscall(SYS_landlock_restrict_self, ruleset_.get(), 0) == 0; }

 private:
  std::uint64_t handled_ = 0;
  Descriptor ruleset_;
};

std::optional<std::string> restrict_writing(const std::string& scratch) {
  WriteRules rules;
  if (auto reason = rules.begin()) return reason;
  bool allowed = rules.allow(scratch, LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                          LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                          LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM | kRefer |
                                          kTruncate);
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    allowed = allowed && rules.allow(device, LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate);
  constexpr std::uint64_t kDrive = LANDLOCK_ACCESS_FS_WRITE_FILE | kIoctlOfDevices | kTruncate;
  for (const char* device : {"/dev/dri", "/dev/kfd", "/dev/accel"})
    allowed = allowed && rules.allow(device, kDrive);
  if (DIR* devices = opendir("/dev")) {
    while (const dirent* entry = readdir(devices))
      if (std::string_view(entry->d_name).substr(0, 6) == "nvidia")
        allowed = allowed && rules.allow(std::string("/dev/") + entry->d_name, kDrive);
    closedir(devices);
  }
  if (!allowed || !rules.enforce()) return refused("landlock");
  return std::nullopt;
}

bool limit(int resource, std::int64_t value) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return false;
  const rlim_t lowest = std::min(static_cast<rlim_t>(value), now.rlim_max);
  const rlimit wanted{lowest, lowest};
  return setrlimit(static_cast<__rlimit_resource_t>(resource), &wanted) == 0;
}

bool drop_capabilities() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
    if (prctl(PR_CAPBSET_DROP, capability) != 0) return false;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

// Descriptors that were opened outside lead to mounts that can be written: rights and times of /dev/null
// among them.
std::optional<std::string> open_input_anew() {
  const Descriptor input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (input.get() < 0 || dup2(input.get(), STDIN_FILENO) < 0) return refused("/dev/null");
  return std::nullopt;
}

// The first process of the PID namespace.
std::optional<std::string> restrict_self(const Sandbox& sandbox) {
  setsid();  // no controlling terminal to type into
  if (auto reason = mount_proc()) return reason;
  if (auto reason = open_input_anew()) return reason;
  if (!drop_capabilities()) return refused("cannot drop capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("PR_SET_NO_NEW_PRIVS");
  if (auto reason = restrict_writing(sandbox.scratch)) return reason;
  if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_FSIZE, kSandboxFileBytes) ||
      !limit(RLIMIT_NPROC, kSandboxTasks) ||
      (sandbox.memory_bytes > 0 && !limit(RLIMIT_AS, sandbox.memory_bytes)))
    return refused("resource limits");
  setenv("TMPDIR", sandbox.scratch.c_str(), 1);
  setenv("XDG_CACHE_HOME", sandbox.scratch.c_str(), 1);
  // Whoever watches the worker from inside the namespace has the worker's user: it must not be traced either.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return refused("PR_SET_DUMPABLE");
  return install_system_call_filter();
}

// The process that the judge knows: it holds `alive` and nothing else, and ends as the first process of the namespace
// ends.
[[noreturn]] void end_as(pid_t first, int alive) {
  const auto kept = static_cast<unsigned>(alive);
  if (kept > 0) close_descriptors(0, kept - 1);
  close_descriptors(kept + 1, ~0U);
  int code = 0;
  while (waitpid(first, &code, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(code)) {
    limit(RLIMIT_CORE, 0);
    signal(WTERMSIG(code), SIG_DFL);
    kill(getpid(), WTERMSIG(code));
  }
  _exit(WEXITSTATUS(code));
}

}  // namespace

std::optional<std::string> enter_sandbox(const Sandbox& sandbox) {
  struct stat folder{};
  if (sandbox.scratch.size() < 2 || sandbox.scratch[0] != '/' ||
      stat(sandbox.scratch.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode))
    return "no sandbox: its scratch folder '" + sandbox.scratch + "' is not the absolute path of a folder";
  if (sandbox.memory_bytes < 0) return "no sandbox: a memory limit below 0";
  if (!write_text("/proc/self/oom_score_adj", "1000")) return refused("/proc/self/oom_score_adj");
  if (auto reason = leave_namespaces()) return reason;
  if (auto reason = make_mounts_read_only(sandbox.scratch)) return reason;
  int alive[2];
  if (pipe2(alive, O_CLOEXEC) != 0) return refused("pipe");
  const pid_t first = fork();  // the caller stays outside of the PID namespace that it made
  if (first < 0) return refused("fork");
  if (first > 0) end_as(first, alive[1]);
  // Whoever kills the caller kills this process, and with it the namespace. The caller has one thread, so that the death
  // of its thread is its own; if it died before this line, its end of the pipe says so.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return refused("PR_SET_PDEATHSIG");
  close(alive[1]);
  pollfd caller{alive[0], POLLIN, 0};
  if (poll(&caller, 1, 0) != 0) _exit(1);
  close(alive[0]);
  return restrict_self(sandbox);
}

}  // namespace assay
