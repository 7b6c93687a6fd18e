#include "reports/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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
  const int opened =
      own ? fcntl(*own, F_DUPFD_CLOEXEC, 3) : open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (opened < 0) refuse(path, std::strerror(errno));
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
void lock(int descriptor, const std::string& path, const std::string& held) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(descriptor);
  refuse(path, error == EWOULDBLOCK ? fmt::format("another run is writing {}", held) : std::strerror(error));
}

int open_new(const std::string& path, const std::string& name) {
  const int opened = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (opened < 0) refuse(path, fmt::format("{}: {}", name, std::strerror(errno)));
  lock(opened, path, name);
  return opened;
}

// What a killed run left behind is removed; what another run holds, or is no ordinary file, is left alone.
void remove_stale(const std::string& path, const std::string& name) {
  struct stat found{};
  if (lstat(name.c_str(), &found) != 0) return;
  if (!S_ISREG(found.st_mode))
    refuse(path, fmt::format("{} stands in the way, and is no ordinary file", name));
  const OutputFile left(open(name.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (left.get() < 0) refuse(path, fmt::format("{}: {}", name, std::strerror(errno)));
  if (flock(left.get(), LOCK_EX | LOCK_NB) != 0) refuse(path, fmt::format("another run is writing {}", name));
  unlink(name.c_str());
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
  part_ = path_ + ".part";
  remove_stale(path_, part_);
  file_.reset(open_new(path_, part_));
}

ReportFile::~ReportFile() {
  if (!finished_ && !part_.empty()) unlink(part_.c_str());
}

void ReportFile::finish() {
  try {
    file_.write(text_.view());
    file_.sync();
    if (!part_.empty() && std::rename(part_.c_str(), path_.c_str()) != 0)
      throw std::system_error(errno, std::generic_category());
    finished_ = true;
  } catch (const std::system_error& e) {
    throw std::runtime_error(
        fmt::format("report file '{}' could not be completed: {}", path_, e.code().message()));
  }
}

int open_record(const std::string& path, bool resume) {
  if (own_descriptor(path) || is_written_in_place(path)) {
    if (resume) refuse(path, "a device or a pipe holds no record to go on with");
    return open_in_place(path);
  }
  check_path(path);
  const int opened =
      open(path.c_str(), (resume ? O_RDWR : O_WRONLY | O_CREAT) | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (opened < 0) refuse(path, std::strerror(errno));
  lock(opened, path, "it");
  if (!resume && ftruncate(opened, 0) != 0) refuse(path, std::strerror(errno));
  return opened;
}

}  // namespace assay
