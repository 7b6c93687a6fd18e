// Each misdeed is tried twice: in a sandbox, where it must fail, and without one, where it must succeed: so
// that it is the sandbox that prevents it. As the user who runs the test, and, if that is root, as an
// ordinary user too.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "harness/worker/sandbox.hpp"

namespace assay {

inline constexpr uid_t kOrdinaryUser = 65534;
inline constexpr int kNotEntered = 100;

struct Ended {
  bool by_signal = false;
  int number = 0;
  std::string reason;  // of a sandbox that was refused
};

// Whether this kernel offers what a sandbox needs, asked without any code of the sandbox.
inline std::string kernel_refuses() {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) < 1)
    return std::string("landlock: ") + std::strerror(errno);
  const pid_t child = fork();
  if (child == 0)
    _exit(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC) == 0 ? 0 : errno);
  int code = 0;
  waitpid(child, &code, 0);
  return WEXITSTATUS(code) == 0 ? "" : std::string("unshare: ") + std::strerror(WEXITSTATUS(code));
}

inline int errno_if(bool failed) { return failed ? (errno != 0 ? errno : EIO) : 0; }

class SandboxTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && geteuid() != 0) GTEST_SKIP() << "SKIPPED: this is an ordinary user already";
    const std::string refusal = kernel_refuses();
    if (!refusal.empty()) GTEST_SKIP() << "SKIPPED: the kernel refuses " << refusal;
    std::string name = testing::TempDir() + "assay_sandbox_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* folder : {"/scratch", "/outside"}) {
      std::filesystem::create_directory(root_ + folder);
      own(root_ + folder);
    }
    own(root_);
    std::ofstream(outside() + "/file") << "kept";
    own(outside() + "/file");
  }
  void TearDown() override {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  void own(const std::string& path) const {
    if (GetParam()) {
      ASSERT_EQ(chown(path.c_str(), kOrdinaryUser, kOrdinaryUser), 0);
    }
  }
  void become_user() const {
    if (!GetParam()) return;
    if (setgid(kOrdinaryUser) != 0 || setuid(kOrdinaryUser) != 0) _exit(kNotEntered);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // setuid took it, and with it the right to write its own /proc/self
  }
  std::string scratch() const { return root_ + "/scratch"; }
  std::string outside() const { return root_ + "/outside"; }
  std::string kept() const {
    std::ifstream file(outside() + "/file");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The exit status of `body`, run in a child that is in a sandbox, or not.
  Ended run(bool sandboxed, const std::function<int()>& body, std::int64_t memory_bytes = 0) const {
    int reason[2];
    EXPECT_EQ(pipe(reason), 0);
    const pid_t child = fork();
    if (child == 0) {
      become_user();
      close(reason[0]);
      if (const auto refusal = sandboxed ? enter_sandbox({scratch(), memory_bytes}) : std::nullopt) {
        static_cast<void>(!write(reason[1], refusal->data(), refusal->size()));
        _exit(kNotEntered);
      }
      close(reason[1]);
      _exit(body());
    }
    close(reason[1]);
    Ended ended;
    char text[512];
    const ssize_t length = read(reason[0], text, sizeof text);
    close(reason[0]);
    if (length > 0) ended.reason.assign(text, static_cast<std::size_t>(length));
    int code = 0;
    waitpid(child, &code, 0);
    ended.by_signal = WIFSIGNALED(code);
    ended.number = ended.by_signal ? WTERMSIG(code) : WEXITSTATUS(code);
    return ended;
  }
  // `misdeed` returns 0 when it succeeded, an errno when it was refused.
  void expect_prevented(const char* name, const std::function<int()>& misdeed) const {
    const Ended with = run(true, misdeed);
    EXPECT_TRUE(!with.by_signal && with.number != 0 && with.number != kNotEntered)
        << name << " in a sandbox: " << with.number << " " << with.reason;
    const Ended without = run(false, misdeed);
    EXPECT_TRUE(!without.by_signal && without.number == 0) << name << " without one: " << without.number;
  }

 private:
  std::string root_;
};

}  // namespace assay
