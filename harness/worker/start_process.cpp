// How a worker's keeper, and through it the worker, comes to run.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <string_view>
#include <system_error>

#include "harness/worker/keeper.hpp"
#include "harness/worker/process.hpp"
#include "harness/worker/protocol.hpp"

extern char** environ;

namespace assay {
namespace {

std::system_error failure(const std::string& what, int error = errno) {
  return std::system_error(error, std::generic_category(), what);
}

// The files that the child starts with. Sources are moved above the targets first, so that no dup2 overwrites
// one that is still needed; everything else is close-on-exec, so that workers started by other threads
// inherit nothing.
class SpawnFiles {
 public:
  SpawnFiles() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETPGROUP);  // an interrupt of the terminal is not for it
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  ~SpawnFiles() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  void null_input() { posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0); }
  void add(int source, int target) { posix_spawn_file_actions_adddup2(&actions_, source, target); }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

int above_targets(int descriptor) {
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  if (moved < 0) throw failure("cannot duplicate a descriptor");
  return moved;
}

struct SocketPair {
  explicit SocketPair(int type) {
    int ends[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) throw failure("socketpair");
    near.reset(ends[0]);
    const Descriptor low(ends[1]);
    far.reset(above_targets(low.get()));
  }
  Descriptor near, far;
};

std::vector<std::string> keeper_command(const ProcessOptions& options) {
  std::vector<std::string> words{options.keeper, kKeepOption};
  if (options.sandbox) {
    words.insert(words.end(),
                 {kSandboxOption, options.sandbox->scratch, std::to_string(options.sandbox->memory_bytes)});
  }
  words.emplace_back("--");
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

// No two processes of this machine have the same one at the same time.
std::string new_mark() {
  static std::atomic<std::uint64_t> count{std::random_device{}()};
  return std::string(kTreeVariable) + "=" + std::to_string(getpid()) + "." + std::to_string(++count);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  return out;
}

}  // namespace

WorkerProcess::WorkerProcess(const ProcessOptions& options)
    : mark_(new_mark()),
      stop_descriptor_(options.stop_descriptor),
      line_bytes_(options.line_bytes),
      command_(options.command.at(0)) {
  SocketPair control(SOCK_STREAM);
  SocketPair lifeline(SOCK_SEQPACKET);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw failure("pipe");
  output_end_.reset(pipe_ends[0]);
  const Descriptor write_end(pipe_ends[1]);
  if (fcntl(output_end_.get(), F_SETFL, O_NONBLOCK) != 0) throw failure("fcntl");

  const Descriptor memory_source(above_targets(options.memory));
  const Descriptor output_source(above_targets(write_end.get()));
  SpawnFiles files;
  files.null_input();
  files.add(output_source.get(), STDOUT_FILENO);
  files.add(output_source.get(), STDERR_FILENO);
  files.add(control.far.get(), kControlDescriptor);
  files.add(memory_source.get(), kMemoryDescriptor);
  files.add(lifeline.far.get(), kLifelineDescriptor);

  const std::vector<std::string> words = keeper_command(options);
  std::vector<char*> arguments = pointers(words);
  arguments.push_back(nullptr);
  std::vector<std::string> added = options.environment;
  added.push_back(mark_);
  std::vector<char*> variables = pointers(added);  // the first of two values of a name counts
  for (char** inherited = environ; *inherited != nullptr; ++inherited)
    if (!std::string_view(*inherited).starts_with("_="))
      variables.push_back(*inherited);  // the shell's: our path
  variables.push_back(nullptr);
  const int error = posix_spawnp(&keeper_, arguments[0], files.actions(), files.attributes(),
                                 arguments.data(), variables.data());
  if (error != 0) {
    keeper_ = -1;
    throw failure("cannot start the keeper of workers " + options.keeper, error);
  }
  keeper_watch_.reset(static_cast<int>(syscall(SYS_pidfd_open, keeper_, 0)));
  control_.reset(control.near.release());
  lifeline_.reset(lifeline.near.release());
}

}  // namespace assay
