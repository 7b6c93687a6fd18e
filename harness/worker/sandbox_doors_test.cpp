// Doors of a sandbox that are no file and no network: datagrams to a path, rights that stay behind, locks,
// what was open before.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "harness/worker/process.hpp"
#include "harness/worker/sandbox_fixture.hpp"

namespace assay {
namespace {

TEST_P(SandboxTest, sends_no_datagram_to_a_path) {
  const std::string name = outside() + "/datagrams";
  const Descriptor listener(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un path{};
  path.sun_family = AF_UNIX;
  std::memcpy(path.sun_path, name.data(), name.size());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&path), sizeof path), 0);
  own(name);
  for (const int type : std::initializer_list<int>{SOCK_DGRAM, SOCK_RAW, SOCK_DGRAM | SOCK_CLOEXEC})
    expect_prevented("a datagram", [&] {
      int pair[2];
      return errno_if(socketpair(AF_UNIX, type, 0, pair) != 0 ||
                      sendto(pair[0], "x", 1, 0, reinterpret_cast<const sockaddr*>(&path), sizeof path) != 1);
    });
}

TEST_P(SandboxTest, leaves_no_program_that_runs_as_its_owner) {
  const std::string file = scratch() + "/program";
  for (const mode_t mode : {mode_t{04755}, mode_t{02755}}) {
    expect_prevented("chmod", [&] {
      const Descriptor made(open(file.c_str(), O_WRONLY | O_CREAT, 0600));
      return errno_if(made.get() < 0 || chmod(file.c_str(), mode) != 0);
    });
    expect_prevented("fchmod", [&] {
      const Descriptor made(open(file.c_str(), O_WRONLY | O_CREAT, 0600));
      return errno_if(made.get() < 0 || fchmod(made.get(), mode) != 0);
    });
    std::filesystem::remove(file);
    expect_prevented("making it so", [&] {
      const Descriptor made(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL, mode));
      return errno_if(made.get() < 0);
    });
    std::filesystem::remove(file);
  }
}

TEST_P(SandboxTest, holds_nothing_outside_against_others) {
  const std::string file = outside() + "/file";
  expect_prevented("flock", [&] {
    const Descriptor opened(open(file.c_str(), O_RDONLY));
    return errno_if(flock(opened.get(), LOCK_EX | LOCK_NB) != 0);
  });
  for (const int command : {F_SETLK, F_OFD_SETLK})
    expect_prevented("a lock of a range", [&] {
      const Descriptor opened(open(file.c_str(), O_RDONLY));
      struct flock whole{};
      whole.l_type = F_RDLCK;
      return errno_if(fcntl(opened.get(), command, &whole) != 0);
    });
}

// It was opened in front of the sandbox, by way of a mount that can be written.
TEST_P(SandboxTest, changes_no_rights_and_times_of_its_input) {
  const Descriptor null(open("/dev/null", O_RDONLY));
  const Ended ended = run(true, [&] {
    struct stat found{};
    if (fstat(STDIN_FILENO, &found) != 0 || !S_ISCHR(found.st_mode)) return 1;
    if (fchmod(STDIN_FILENO, found.st_mode & 07777) == 0 || futimens(STDIN_FILENO, nullptr) == 0) return 2;
    return chmod("/proc/self/fd/0", found.st_mode & 07777) == 0 ? 3 : 0;
  });
  EXPECT_EQ(ended.number, 0) << ended.reason;
}

}  // namespace
}  // namespace assay
