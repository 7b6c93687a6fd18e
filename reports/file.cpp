#include "reports/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "reference/error.hpp"

namespace assay {
namespace {

constexpr mode_t kMode = 0666;  // less the umask

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("report file '{}' cannot be written: {}", path, why));
}

// Devices and pipes, by whatever link they are reached (/dev/stdout is one).
bool is_written_in_place(const std::string& path) {
  struct stat target{};
  return stat(path.c_str(), &target) == 0 &&
         (S_ISCHR(target.st_mode) || S_ISFIFO(target.st_mode) || S_ISBLK(target.st_mode));
}

// This process's own output may be an ordinary file that the shell opened: it is written where it stands.
std::optional<int> own_descriptor(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  return std::nullopt;
}

int open_in_place(const std::string& path) {
  const auto own = own_descriptor(path);
  if (own) {
    const int copy = fcntl(*own, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) refuse(path, std::strerror(errno));
    return copy;
  }
  // A pipe that nobody reads yet is waited for, but not for ever.
  constexpr int kTries = 500;
  constexpr useconds_t kPause = 10'000;
  int opened = -1;
  for (int i = 0; i < kTries && opened < 0; ++i) {
    opened = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (opened >= 0 || errno != ENXIO) break;
    usleep(kPause);
  }
  if (opened < 0) refuse(path, errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno));
  if (fcntl(opened, F_SETFL, 0) != 0) refuse(path, std::strerror(errno));
  return opened;
}

void check_path(const std::string& path) {
  struct stat found{};
  if (path.empty()) refuse(path, "its name is empty");
  if (lstat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) refuse(path, std::strerror(errno));
    return;
  }
  if (S_ISDIR(found.st_mode)) refuse(path, "it is a directory");
  if (S_ISLNK(found.st_mode)) refuse(path, "it is a symbolic link; name the file that it leads to");
  if (!S_ISREG(found.st_mode)) refuse(path, "it is no ordinary file");
  if (access(path.c_str(), W_OK) != 0) refuse(path, std::strerror(errno));
}

// Locked for as long as it is open: two runs into one file would destroy each other's.
void lock(int descriptor, const std::string& path) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(descriptor);
  refuse(path, error == EWOULDBLOCK ? "another run is writing it" : std::strerror(error));
}

// What stands at the name of a temporary file: one that a killed run left is removed, anything else is not
// touched.
void remove_stale(const std::string& path, const std::string& name) {
  struct stat found{};
  if (lstat(name.c_str(), &found) != 0) return;
  if (!S_ISREG(found.st_mode))
    refuse(path, fmt::format("{} stands in the way, and is no ordinary file", name));
  if (unlink(name.c_str()) != 0) refuse(path, fmt::format("{}: {}", name, std::strerror(errno)));
}

// Holds the path against other runs: a socket in the abstract namespace, named by the folder's identity and
// the file's name.
int claim(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  struct stat found{};
  if (stat(folder.c_str(), &found) != 0) refuse(path, fmt::format("{}: {}", folder, std::strerror(errno)));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("assay-report {:x} {:x} {:x}", found.st_dev, found.st_ino,
                                       std::hash<std::string>{}(file.filename().string()));
  std::copy_n(name.begin(), std::min(name.size(), sizeof address.sun_path - 1), address.sun_path + 1);
  const int held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (held < 0 || bind(held, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    close(held);
    refuse(path, error == EADDRINUSE ? "another run is writing it" : std::strerror(error));
  }
  return held;
}

int open_unnamed(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
}

}  // namespace

OutputFile::~OutputFile() { reset(); }

void OutputFile::reset(int descriptor) {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = descriptor;
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category());
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    throw std::system_error(errno, std::generic_category());
}

ReportFile::ReportFile(std::string path) : path_(std::move(path)) {
  if (own_descriptor(path_) || is_written_in_place(path_)) {
    file_.reset(open_in_place(path_));
    return;
  }
  check_path(path_);
  claim_.reset(claim(path_));
  part_ = path_ + ".part";
  remove_stale(path_, part_);
  file_.reset(open_unnamed(path_));
  if (file_.get() >= 0) return;
  file_.reset(open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (file_.get() < 0) refuse(path_, std::strerror(errno));
  named_ = true;
}

ReportFile::~ReportFile() {
  if (!finished_ && named_) unlink(part_.c_str());
}

void ReportFile::finish() {
  try {
    file_.write(text_.view());
    file_.sync();
    if (!part_.empty()) {
      const std::string unnamed = fmt::format("/proc/self/fd/{}", file_.get());
      if (!named_ && linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, part_.c_str(), AT_SYMLINK_FOLLOW) != 0)
        throw std::system_error(errno, std::generic_category());
      named_ = true;
      if (std::rename(part_.c_str(), path_.c_str()) != 0)
        throw std::system_error(errno, std::generic_category());
    }
    finished_ = true;
  } catch (const std::system_error& e) {
    throw std::runtime_error(
        fmt::format("report file '{}' could not be completed: {}", path_, e.code().message()));
  }
}

void write_report(const std::string& path, const std::string& text) {
  ReportFile file(path);
  file.stream() << text;
  file.finish();
}

int open_record(const std::string& path, bool resume) {
  if (own_descriptor(path) || is_written_in_place(path)) {
    if (resume) refuse(path, "a device or a pipe holds no record to go on with");
    return open_in_place(path);
  }
  check_path(path);
  const int opened =
      open(path.c_str(), O_RDWR | (resume ? 0 : O_CREAT) | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (opened < 0) refuse(path, std::strerror(errno));
  lock(opened, path);
  if (!resume && ftruncate(opened, 0) != 0) refuse(path, std::strerror(errno));
  return opened;
}

}  // namespace assay
