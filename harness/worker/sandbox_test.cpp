// What a sandbox prevents, and what it leaves: see sandbox_fixture.hpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "harness/worker/process.hpp"
#include "harness/worker/sandbox_fixture.hpp"

namespace assay {
namespace {

int connect_to(const sockaddr* address, socklen_t size) {
  const Descriptor s(socket(address->sa_family, SOCK_STREAM, 0));
  return errno_if(s.get() < 0 || connect(s.get(), address, size) != 0);
}

TEST_P(SandboxTest, connects_to_nobody) {
  const Descriptor tcp(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof loopback;
  ASSERT_EQ(bind(tcp.get(), reinterpret_cast<sockaddr*>(&loopback), size), 0);
  ASSERT_EQ(listen(tcp.get(), 16), 0);
  ASSERT_EQ(getsockname(tcp.get(), reinterpret_cast<sockaddr*>(&loopback), &size), 0);
  expect_prevented("TCP to loopback",
                   [&] { return connect_to(reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback); });

  for (const std::string& name : {outside() + "/socket", std::string("@abstract") + outside()}) {
    const Descriptor local(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    std::memcpy(path.sun_path, name.data(), name.size());
    if (name[0] == '@') path.sun_path[0] = '\0';
    ASSERT_EQ(bind(local.get(), reinterpret_cast<sockaddr*>(&path), sizeof path), 0);
    if (name[0] != '@') own(name);
    ASSERT_EQ(listen(local.get(), 16), 0);
    expect_prevented(name.c_str(),
                     [&] { return connect_to(reinterpret_cast<const sockaddr*>(&path), sizeof path); });
  }
}

TEST_P(SandboxTest, changes_no_file_outside_of_scratch) {
  const std::string file = outside() + "/file", fresh = outside() + "/fresh";
  expect_prevented("opening for writing", [&] { return errno_if(open(file.c_str(), O_WRONLY) < 0); });
  expect_prevented("creating", [&] {
    return errno_if(open(fresh.c_str(), O_WRONLY | O_CREAT, 0600) < 0 || unlink(fresh.c_str()) != 0);
  });
  expect_prevented("chmod", [&] { return errno_if(chmod(file.c_str(), 0644) != 0); });
  expect_prevented("times", [&] { return errno_if(utimensat(AT_FDCWD, file.c_str(), nullptr, 0) != 0); });
  expect_prevented("a folder",
                   [&] { return errno_if(mkdir(fresh.c_str(), 0700) != 0 || rmdir(fresh.c_str()) != 0); });
  expect_prevented(
      "a link", [&] { return errno_if(symlink("file", fresh.c_str()) != 0 || unlink(fresh.c_str()) != 0); });
  expect_prevented("renaming", [&] {
    return errno_if(rename(file.c_str(), fresh.c_str()) != 0 || rename(fresh.c_str(), file.c_str()) != 0);
  });
  const std::string shared = "/dev/shm/" + std::filesystem::path(outside()).parent_path().filename().string();
  expect_prevented("/dev/shm", [&] {
    return errno_if(open(shared.c_str(), O_WRONLY | O_CREAT, 0600) < 0 || unlink(shared.c_str()) != 0);
  });
  EXPECT_EQ(kept(), "kept");
  expect_prevented("truncating", [&] { return errno_if(truncate(file.c_str(), 0) != 0); });
  expect_prevented("removing", [&] { return errno_if(unlink(file.c_str()) != 0); });
}

TEST_P(SandboxTest, leaves_what_an_honest_worker_does) {
  const Ended ended = run(true, [&] {
    const std::string file = scratch() + "/cache/file";
    if (mkdir((scratch() + "/cache").c_str(), 0700) != 0) return 1;
    {
      std::ofstream(file) << "text";
    }
    if (std::filesystem::file_size(file) != 4 || rename(file.c_str(), (scratch() + "/moved").c_str()) != 0)
      return 2;
    if (std::getenv("TMPDIR") != scratch()) return 3;
    for (const char* device : {"/dev/null", "/dev/zero"})
      if (open(device, O_RDWR) < 0) return 4;
    const int memory = memfd_create("memory", 0);
    if (memory < 0 || ftruncate(memory, 1 << 20) != 0 || pwrite(memory, "x", 1, 4096) != 1) return 5;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 6;
    int value = 0;
    std::thread([&] { value = 1; }).join();
    if (value != 1) return 7;
    if (system("exit 9") != 9 << 8) return 8;
    if (std::ifstream("/proc/self/maps").get() < 0 || std::ifstream("/etc/passwd").get() < 0) return 9;
    return 0;
  });
  EXPECT_EQ(ended.number, 0) << ended.reason;
}

TEST_P(SandboxTest, reaches_no_process_outside) {
  const pid_t judge = getpid();
  const pid_t bystander = fork();
  if (bystander == 0) {
    become_user();
    for (;;) pause();
  }
  usleep(20'000);
  const auto signal_bystander = [&] { return errno_if(kill(bystander, 0) != 0); };
  expect_prevented("a signal", signal_bystander);
  expect_prevented("ptrace",
                   [&] { return errno_if(ptrace(PTRACE_SEIZE, bystander, nullptr, nullptr) != 0); });
  expect_prevented("its memory", [&] {
    return errno_if(open(("/proc/" + std::to_string(bystander) + "/mem").c_str(), O_RDWR) < 0);
  });
  const Ended all = run(true, [&] {
    kill(-1, SIGKILL);  // everything that can be signalled but this process
    return getppid() == 0 && getpid() == 1 && kill(judge, SIGKILL) != 0 ? 0 : 1;
  });
  EXPECT_EQ(all.number, 0) << all.reason;
  EXPECT_EQ(kill(bystander, 0), 0);
  EXPECT_EQ(waitpid(bystander, nullptr, WNOHANG), 0) << "the bystander is dead";
  kill(bystander, SIGKILL);
  waitpid(bystander, nullptr, 0);
}

TEST_P(SandboxTest, protects_the_process_that_watches_inside) {
  const Ended ended = run(true, [] {
    const pid_t worker = fork();
    if (worker == 0) {
      kill(1, SIGKILL);
      kill(1, SIGSTOP);
      if (open("/proc/1/mem", O_RDWR) >= 0 || ptrace(PTRACE_ATTACH, 1, nullptr, nullptr) == 0) _exit(1);
      _exit(0);
    }
    int code = 0;
    waitpid(worker, &code, 0);
    return WEXITSTATUS(code);
  });
  EXPECT_FALSE(ended.by_signal);
  EXPECT_EQ(ended.number, 0) << ended.reason;
}

TEST_P(SandboxTest, has_no_rights_to_win_back) {
  const Ended ended = run(true, [] {
    std::string line;
    int found = 0;
    for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
      const auto is = [&](const char* text) { return line == text; };
      found += is("CapEff:\t0000000000000000") + is("CapBnd:\t0000000000000000") + is("NoNewPrivs:\t1") +
               is("Seccomp:\t2");
    }
    if (found != 4) return 1;
    if (unshare(CLONE_NEWUSER) == 0) return 2;
    if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr) == 0) return 3;
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr) >= 0) return 4;
    if (syscall(SYS_clone3, nullptr, 0) == 0 || errno != ENOSYS) return 5;
    if (open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0) return 6;
    if (socket(AF_VSOCK, SOCK_STREAM, 0) >= 0 || socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0) return 7;
    if (open("/dev/tty", O_RDWR) >= 0) return 8;
    std::ifstream score("/proc/self/oom_score_adj");
    std::getline(score, line);
    return line == "1000" ? 0 : 9;
  });
  EXPECT_EQ(ended.number, 0) << ended.reason;
}

TEST_P(SandboxTest, bounds_memory_and_files) {
#if defined(ASSAY_ADDRESS_SANITIZER)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer maps more than any limit";
#endif
  constexpr std::int64_t kLimit = std::int64_t{512} << 20;
  const auto megabytes = [] {
    int count = 0;
    while (count < 200 && std::malloc(std::size_t{4} << 20) != nullptr) ++count;
    return count;
  };
  const Ended with = run(true, megabytes, kLimit);
  EXPECT_GT(with.number, 50) << with.reason;
  EXPECT_LT(with.number, 128);
  EXPECT_EQ(run(true, megabytes).number, 200);
  const Ended file = run(true, [&] {
    signal(SIGXFSZ, SIG_IGN);
    const int descriptor = open((scratch() + "/large").c_str(), O_WRONLY | O_CREAT, 0600);
    if (pwrite(descriptor, "x", 1, kSandboxFileBytes - 1) != 1) return 1;
    return pwrite(descriptor, "x", 1, kSandboxFileBytes) == -1 && errno == EFBIG ? 0 : 2;
  });
  EXPECT_EQ(file.number, 0) << file.reason;
}

// A pipe whose read end reaches its end when every process that inherited the other is gone.
bool all_gone(int read_end, int timeout_ms) {
  pollfd end{read_end, POLLIN, 0};
  char byte = 0;
  return poll(&end, 1, timeout_ms) == 1 && read(read_end, &byte, 1) == 0;
}

void daemonise_twice() {
  if (fork() == 0) {
    setsid();
    if (fork() == 0)
      for (;;) pause();
    _exit(0);
  }
}

TEST_P(SandboxTest, leaves_no_daemon_behind) {
  for (const bool sandboxed : {true, false}) {
    int alive[2];
    ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
    const Ended ended = run(sandboxed, [] {
      daemonise_twice();
      usleep(30'000);
      return 5;
    });
    EXPECT_EQ(ended.number, 5) << ended.reason;
    close(alive[1]);
    EXPECT_EQ(all_gone(alive[0], sandboxed ? 2'000 : 100), sandboxed);
    if (!sandboxed) {  // the twin's daemon is this program too, and has no parent: it holds this test's pipe
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        std::error_code ignored;
        if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == getpid())
          continue;
        if (std::filesystem::read_symlink(entry.path() / "exe", ignored) !=
            std::filesystem::read_symlink("/proc/self/exe", ignored))
          continue;
        for (const auto& file : std::filesystem::directory_iterator(entry.path() / "fd", ignored))
          if (std::filesystem::read_symlink(file.path(), ignored) ==
              std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(alive[0]), ignored))
            kill(std::stoi(name), SIGKILL);
      }
      EXPECT_TRUE(all_gone(alive[0], 2'000));
    }
    close(alive[0]);
  }
}

TEST_P(SandboxTest, ends_as_its_first_process_ends_and_with_its_caller) {
  EXPECT_EQ(run(true, [] { return 7; }).number, 7);
  const Ended aborted = run(true, [] {
#if defined( \
    ASSAY_ADDRESS_SANITIZER)  // the first process of a namespace does not die of SIGABRT but of what abort() does then
    signal(SIGSEGV, SIG_DFL);  // which AddressSanitizer would report, and exit
#endif
    std::abort();
    return 0;
  });
  EXPECT_TRUE(aborted.by_signal);
  int alive[2];
  ASSERT_EQ(pipe2(alive, O_CLOEXEC), 0);
  const pid_t caller = fork();
  if (caller == 0) {
    become_user();
    if (enter_sandbox({scratch(), 0})) _exit(kNotEntered);
    static_cast<void>(!write(alive[1], "!", 1));
    for (;;) pause();
  }
  close(alive[1]);
  char byte = 0;
  ASSERT_EQ(read(alive[0], &byte, 1), 1);
  kill(caller, SIGKILL);
  waitpid(caller, nullptr, 0);
  EXPECT_TRUE(all_gone(alive[0], 2'000));
  close(alive[0]);
}

TEST_P(SandboxTest, is_refused_with_a_reason) {
  const auto reason_of = [&](const Sandbox& sandbox, bool threads) {
    return run(false,
               [&] {
                 std::thread other;
                 if (threads) other = std::thread([] { pause(); });
                 const auto reason = enter_sandbox(sandbox);
                 if (!reason) return 1;
                 if (reason->find(threads                    ? "refuses new namespaces"
                                  : sandbox.memory_bytes < 0 ? "below 0"
                                                             : "folder") == std::string::npos)
                   return 2;
                 _exit(0);
               })
        .number;
  };
  EXPECT_EQ(reason_of({scratch(), 0}, true), 0);
  EXPECT_EQ(reason_of({scratch(), -1}, false), 0);
  EXPECT_EQ(reason_of({scratch() + "/absent", 0}, false), 0);
  EXPECT_EQ(reason_of({outside() + "/file", 0}, false), 0);
  EXPECT_EQ(reason_of({"/", 0}, false), 0);
  EXPECT_EQ(reason_of({"relative", 0}, false), 0);
}

INSTANTIATE_TEST_SUITE_P(Users, SandboxTest, ::testing::Bool(),
                         [](const auto& user) { return user.param ? "ordinary" : "as_is"; });

}  // namespace
}  // namespace assay
