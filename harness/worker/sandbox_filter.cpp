// The seccomp filter of a sandbox: which system calls no kernel under test needs.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/worker/sandbox.hpp"

namespace assay {

#if defined(__x86_64__) || defined(__aarch64__)
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Refused with EPERM. Most need capabilities that a sandbox does not have; a defect in the kernel behind them
// then cannot be reached either.
constexpr int kRefused[] = {
    // other processes
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    // namespaces and mounts
    SYS_setns,
    SYS_unshare,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    // the kernel
    SYS_bpf,
    SYS_perf_event_open,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_userfaultfd,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_mknodat,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_mknod,
    SYS_kexec_file_load,
#endif
};

// Refused with ENOSYS, so that callers take the older call whose arguments a filter can read.
constexpr int kUnknown[] = {SYS_clone3, SYS_openat2, SYS_io_uring_setup, SYS_io_uring_enter,
                            SYS_io_uring_register};

constexpr std::uint32_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
// What a network namespace isolates. AF_UNIX is not among them: a socket that has a path (a container
// daemon's) can be reached from every network namespace. socketpair() stays, but for sockets that send to an
// address though they are connected.
constexpr std::uint32_t kFamilies[] = {AF_INET, AF_INET6, AF_NETLINK};
constexpr std::uint32_t kPairs[] = {SOCK_STREAM, SOCK_SEQPACKET}, kSocketTypes = 0xf;
// A program that runs as its owner, whoever starts it: it would stay behind in the scratch folder.
constexpr std::uint32_t kRunsAsOwner = S_ISUID | S_ISGID;
struct ModeCall {
  int number;
  std::size_t mode;  // which argument
};
constexpr int kFchmodat2 = 452;
constexpr ModeCall kModes[] = {
    {SYS_fchmod, 1}, {SYS_fchmodat, 2}, {kFchmodat2, 2}, {SYS_mkdirat, 2},
#if defined(__x86_64__)
    {SYS_chmod, 1},  {SYS_mkdir, 1},    {SYS_creat, 1},
#endif
};
struct OpenCall {
  int number;
  std::size_t flags, mode;
};
constexpr OpenCall kOpens[] = {
    {SYS_openat, 2, 3},
#if defined(__x86_64__)
    {SYS_open, 1, 2},
#endif
};
constexpr std::uint32_t kTakesMode = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
// A lock needs no right to write: what is read outside could be held against everybody who writes it.
constexpr std::uint32_t kLocks[] = {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE};
constexpr std::uint32_t kTyping[] = {TIOCSTI, TIOCLINUX};  // ioctl: input for a terminal that others read

class Filter {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void refuse(std::uint32_t error) { add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error); }
  void keep_bits(std::uint32_t bits) { add(BPF_ALU | BPF_AND | BPF_K, bits); }
  void allow() { add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }
  // The next `skip` instructions run only if the loaded word is `value`, or is not, or has one of the bits.
  void if_equal(std::uint32_t value, std::uint8_t skip) { add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip); }
  void if_not_equal(std::uint32_t value, std::uint8_t skip) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0);
  }
  void if_any_bit(std::uint32_t bits, std::uint8_t skip) { add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, skip); }

  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return syscall_(&program) == 0;
  }

 private:
  static int syscall_(const sock_fprog* program) {
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0);
  }
  void add(int code, std::uint32_t value, std::uint8_t if_true = 0, std::uint8_t if_false = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), if_true, if_false, value});
  }
  std::vector<sock_filter> code_;
};

constexpr std::size_t kNumber = offsetof(seccomp_data, nr);
// The low half of an argument: both machines are little-endian, and the kernel looks at no more of these
// arguments.
constexpr std::size_t argument(std::size_t index) {
  return offsetof(seccomp_data, args) + index * sizeof(std::uint64_t);
}

}  // namespace

std::optional<std::string> install_system_call_filter() {
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.if_not_equal(kArchitecture, 1);  // a 32-bit call has other numbers
  filter.refuse(ENOSYS);
  filter.load(kNumber);
#if defined(__x86_64__)
  constexpr std::uint32_t kX32 = 0x40000000;
  filter.if_any_bit(kX32, 1);
  filter.refuse(ENOSYS);
#endif
  for (const int number : kRefused) {
    filter.if_equal(static_cast<std::uint32_t>(number), 1);
    filter.refuse(EPERM);
  }
  for (const int number : kUnknown) {
    filter.if_equal(static_cast<std::uint32_t>(number), 1);
    filter.refuse(ENOSYS);
  }
  filter.if_equal(SYS_clone, 4);
  filter.load(argument(0));
  filter.if_any_bit(kNewNamespaces, 1);
  filter.refuse(EPERM);
  filter.allow();
  filter.if_equal(SYS_prlimit64, 4);  // of this process alone
  filter.load(argument(0));
  filter.if_not_equal(0, 1);
  filter.refuse(EPERM);
  filter.allow();
  filter.if_equal(SYS_ioctl, static_cast<std::uint8_t>(2 + 2 * std::size(kTyping)));
  filter.load(argument(1));
  for (const std::uint32_t command : kTyping) {
    filter.if_equal(command, 1);
    filter.refuse(EPERM);
  }
  filter.allow();
  filter.if_equal(SYS_socket, static_cast<std::uint8_t>(2 + 2 * std::size(kFamilies)));
  filter.load(argument(0));
  for (const std::uint32_t family : kFamilies) {
    filter.if_equal(family, 1);
    filter.allow();
  }
  filter.refuse(EACCES);
  filter.if_equal(SYS_socketpair, static_cast<std::uint8_t>(3 + 2 * std::size(kPairs)));
  filter.load(argument(1));
  filter.keep_bits(kSocketTypes);
  for (const std::uint32_t type : kPairs) {
    filter.if_equal(type, 1);
    filter.allow();
  }
  filter.refuse(EACCES);
  for (const ModeCall& call : kModes) {
    filter.if_equal(static_cast<std::uint32_t>(call.number), 4);
    filter.load(argument(call.mode));
    filter.if_any_bit(kRunsAsOwner, 1);
    filter.refuse(EPERM);
    filter.allow();
  }
  for (const OpenCall& call : kOpens) {
    filter.if_equal(static_cast<std::uint32_t>(call.number), 6);
    filter.load(argument(call.flags));
    filter.if_any_bit(kTakesMode, 3);
    filter.load(argument(call.mode));
    filter.if_any_bit(kRunsAsOwner, 1);
    filter.refuse(EPERM);
    filter.allow();
  }
  filter.if_equal(SYS_flock, 1);
  filter.refuse(ENOLCK);
  filter.if_equal(SYS_fcntl, static_cast<std::uint8_t>(2 + 2 * std::size(kLocks)));
  filter.load(argument(1));
  for (const std::uint32_t command : kLocks) {
    filter.if_equal(command, 1);
    filter.refuse(ENOLCK);
  }
  filter.allow();
  filter.allow();
  if (!filter.install()) return std::string("no sandbox: the seccomp filter: ") + std::strerror(errno);
  return std::nullopt;
}

#else

std::optional<std::string> install_system_call_filter() {
  return "no sandbox: its filter of system calls is written for x86-64 and AArch64";
}

#endif

}  // namespace assay
