// assay-worker: the process in which a plug-in runs. Started by its keeper (keeper.hpp) with its control
// socket as descriptor 3 and the shared memory as descriptor 4; speaks protocol.md.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/assay_backend.h"
#include "harness/worker/bounded.hpp"
#include "harness/worker/channel.hpp"
#include "harness/worker/crash_report.hpp"
#include "harness/worker/keeper.hpp"
#include "harness/worker/plain_name.hpp"
#include "harness/worker/process_state.hpp"
#include "harness/worker/protocol.hpp"
#include "harness/worker/slot_mapping.hpp"
#include "harness/worker/witness_client.hpp"

namespace assay {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitChannelLost = 71;
constexpr std::size_t kMaxKernels = 65536;
constexpr std::size_t kMaxNotes = 4096;
constexpr std::size_t kMaxTextBytes = 65536;  // of a kernel's name, or a note, as it comes
constexpr std::size_t kReasonBytes = 256;
constexpr std::size_t kFilledStackBytes = 256 << 10;
constexpr std::size_t kClockStackBytes = 2048;

std::string bounded_text(const char* text, std::size_t limit) {
  return text == nullptr ? std::string() : std::string(text, strnlen(text, limit));
}

// Ends the worker when the assay program goes away, in the middle of an endless kernel too. Not
// PR_SET_PDEATHSIG: that fires when the *thread* which started the worker ends, and a Worker may outlive the
// thread that first used it.
void end_with_parent() {
  std::thread([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pollfd watched{kControlDescriptor, POLLRDHUP, 0};
    while (poll(&watched, 1, -1) <= 0) {
    }
    _exit(kExitChannelLost);
  }).detach();
}

// Whether a file is made to be loaded on this machine, whatever it may lack here.
bool is_shared_library(const std::string& path) {
  const auto head_of = [](const std::string& file) {
    ElfW(Ehdr) head{};
    std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&head), sizeof head);
    return head;
  };
  const ElfW(Ehdr) own = head_of("/proc/self/exe"), its = head_of(path);
  return std::memcmp(own.e_ident, its.e_ident, EI_VERSION) == 0 && its.e_machine == own.e_machine &&
         its.e_type == ET_DYN;
}

// Filled by the plug-in's callbacks, which may come from its own threads.
struct TraceRecorder {
  Trace trace;
  std::size_t dropped = 0;
  std::mutex mutex;

  static void kernel(void* self, const char* name) {
    auto& recorder = *static_cast<TraceRecorder*>(self);
    const std::lock_guard lock(recorder.mutex);
    if (recorder.trace.kernels.size() < kMaxKernels) {
      recorder.trace.kernels.push_back(bounded_text(name, kMaxTextBytes));
    } else {
      ++recorder.dropped;
    }
  }
  static void note(void* self, const char* key, const char* value) {
    auto& recorder = *static_cast<TraceRecorder*>(self);
    const std::lock_guard lock(recorder.mutex);
    if (recorder.trace.notes.size() < kMaxNotes) {
      recorder.trace.notes.emplace_back(bounded_text(key, kMaxTextBytes), bounded_text(value, kMaxTextBytes));
    }
  }
};

// An assay_call whose texts and arrays live here. `memory` is null for declare.
class Call {
 public:
  Call(const CallMessage& message, const SlotMapping* memory) {
    for (const auto& [name, value] : message.attributes) attributes_.push_back({name.c_str(), value.c_str()});
    for (const TensorMessage& tensor : message.inputs) inputs_.push_back(tensor_of(tensor, memory));
    for (const TensorMessage& tensor : message.outputs) outputs_.push_back(tensor_of(tensor, memory));
    call_ = {message.op.c_str(), message.variant.c_str(), attributes_.data(), count(attributes_),
             inputs_.data(),     count(inputs_),          outputs_.data(),    count(outputs_)};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  const assay_call* get() const { return &call_; }

 private:
  template <typename T>
  static std::int32_t count(const std::vector<T>& list) {
    return static_cast<std::int32_t>(list.size());
  }
  static assay_tensor tensor_of(const TensorMessage& message, const SlotMapping* memory) {
    if (message.shape.size() > ASSAY_MAX_RANK) {
      throw ProtocolError(fmt::format("tensor {} has rank {}, at most {} is possible", message.name,
                                      message.shape.size(), ASSAY_MAX_RANK));
    }
    assay_tensor tensor{};
    tensor.name = message.name.c_str();
    tensor.format = message.format.c_str();
    tensor.rank = static_cast<std::int32_t>(message.shape.size());
    std::copy(message.shape.begin(), message.shape.end(), tensor.shape);
    std::copy(message.stride.begin(), message.stride.end(), tensor.stride);
    if (memory != nullptr) {
      if (message.offset < 0 || static_cast<std::size_t>(message.offset) > memory->bytes()) {
        throw ProtocolError("tensor " + message.name + " lies outside the shared memory");
      }
      tensor.data = memory->data() + message.offset;
    }
    return tensor;
  }

  std::vector<assay_attribute> attributes_;
  std::vector<assay_tensor> inputs_;
  std::vector<assay_tensor> outputs_;
  assay_call call_{};
};

// Leaves a known byte in the stack below its caller, where the frames of the next call will lie. What a
// kernel reads there before it has written it then differs between runs that ask for different bytes.
template <std::size_t Bytes>
[[gnu::noinline, gnu::no_sanitize_address]] void fill_stack(int byte) {
  unsigned char below[Bytes];
  std::memset(below, byte, Bytes);
  asm volatile("" : : "r"(below) : "memory");  // or the compiler would drop a write that nobody reads
}

class Server {
 public:
  Server() { forget_own_variables(); }

  Reply answer(const request::Hello&) {
    return reply::Hello{std::string(kProtocolName), kProtocolVersion, true};
  }

  Reply answer(const request::Open& open) {
    if (backend_ != nullptr) return reply::Refused{"a backend is open already"};
    void* library = dlopen(open.plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const bool mistake = !is_shared_library(open.plugin);
      return reply::Refused{
          fmt::format(
              "cannot load {}: {}{}", open.plugin, dlerror(),
              mistake ? "; allowed: a shared library of this machine (.so), or a file of Python (.py)" : ""),
          mistake};
    }
    const auto entry = reinterpret_cast<assay_backend_open_fn>(dlsym(library, "assay_backend_open"));
    if (entry == nullptr)
      return reply::Refused{
          open.plugin + " is no plug-in: it does not export assay_backend_open (assay_backend.h)", true};
    char reason[kReasonBytes] = "";
    const assay_backend* backend = entry(open.options.c_str(), reason);
    if (backend == nullptr) {
      const std::string why = bounded_text(reason, kReasonBytes);
      return reply::Refused{why.empty() ? open.plugin + " does not open, and gives no reason" : why,
                            why.starts_with("option")};
    }
    if (backend->version != ASSAY_BACKEND_VERSION) {
      return reply::Refused{
          fmt::format("{} is built for version {} of assay_backend.h; this worker knows version {}",
                      open.plugin, backend->version, ASSAY_BACKEND_VERSION)};
    }
    if (backend->declare == nullptr || backend->run == nullptr) {
      return reply::Refused{open.plugin + " leaves declare or run empty", true};
    }
    backend_ = backend;
    reply::Opened opened{bounded_text(backend->name, 4096),
                         bounded_text(backend->description, 4096) + witness_.standing(),
                         {}};
    std::istringstream variants(bounded_text(backend->variants, 65536));
    for (std::string word; variants >> word;) opened.variants.push_back(word);
    return opened;
  }

  Reply answer(const request::Declare& declare) {
    if (backend_ == nullptr) return reply::Failed{"no backend is open"};
    const Call call(declare.call, nullptr);
    assay_declaration declaration{};
    // Of declarations in a row once: behind each it is again what it was in front of the first.
    if (!before_declarations_) before_declarations_.emplace(false);
    struct Restored {  // by whatever way it ends
      ProcessState& before;
      ~Restored() { before.restore(); }
    };
    const assay_status status = [&] {
      const Restored behind{*before_declarations_};
      return backend_->declare(backend_->self, call.get(), &declaration);
    }();
    if (status == ASSAY_OK) {
      return reply::Declared{bounded_text(declaration.contract, sizeof declaration.contract),
                             bounded_text(declaration.path, sizeof declaration.path),
                             bounded_text(declaration.promises, sizeof declaration.promises)};
    }
    return refusal(status, bounded_text(declaration.reason, sizeof declaration.reason));
  }

  Reply answer(const request::Run& run) {
    if (backend_ == nullptr) return reply::Failed{"no backend is open"};
    before_declarations_.reset();
    memory_.adopt(run.memory_bytes, run.slots);
    g_crash_context.memory = memory_.data();
    g_crash_context.memory_bytes = memory_.bytes();
    const Call call(run.call, &memory_);
    TraceRecorder recorder;
    const assay_trace trace{&recorder, TraceRecorder::kernel, TraceRecorder::note};
    char reason[kReasonBytes] = "";
    witness_.forget();
    ProcessState before;
    if (run.stack >= 0) fill_stack<kFilledStackBytes>(run.stack);
    const auto begin = std::chrono::steady_clock::now();
    if (run.stack >= 0) fill_stack<kClockStackBytes>(run.stack);  // what reading the clock left
    const assay_status status = backend_->run(backend_->self, call.get(), &trace, reason);
    const auto end = std::chrono::steady_clock::now();
    const std::string left = before.restore();
    if (status != ASSAY_OK) return refusal(status, bounded_text(reason, kReasonBytes));
    recorder.trace.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
    if (recorder.dropped > 0)
      recorder.trace.notes.emplace_back("kernels_dropped", std::to_string(recorder.dropped));
    if (!left.empty()) recorder.trace.notes.emplace_back(kLeftBehindNote, left);
    recorder.trace.witness = witness_.collect(recorder.trace.kernels);
    bound(recorder.trace, kInOneReply);
    if (!witness_.absence().empty()) recorder.trace.notes.emplace_back("witness_absent", witness_.absence());
    return reply::Done{std::move(recorder.trace)};
  }

  Reply answer(const request::Ping&) { return reply::Pong{}; }

  Reply answer(const request::Bye&) {  // never sent: the loop below ends first
    return reply::Failed{"bye has no reply"};
  }

  void close() {
    if (backend_ != nullptr && backend_->close != nullptr) backend_->close(backend_->self);
    backend_ = nullptr;
  }

 private:
  static Reply refusal(assay_status status, std::string reason) {
    if (reason.empty()) reason = "the backend gives no reason";
    if (status == ASSAY_UNSUPPORTED) return reply::Unsupported{std::move(reason)};
    if (status == ASSAY_FAILED) return reply::Failed{std::move(reason)};
    return reply::Failed{
        fmt::format("status {} is none of assay_backend.h: {}", static_cast<int>(status), reason)};
  }

  const assay_backend* backend_ = nullptr;
  SlotMapping memory_;
  std::optional<ProcessState> before_declarations_;
  WitnessClient witness_;  // watches from before the plug-in is loaded
};

int serve() {
  const pid_t own = getpid();
  Server server;
  LineBuffer buffer;
  for (;;) {
    auto line = buffer.take();
    if (!line) {
      if (receive_some(kControlDescriptor, buffer, 0) == Received::end) return kExitChannelLost;
      continue;
    }
    Reply answer = reply::Failed{};
    bool opening = false;
    std::int64_t id = 0;
    try {
      const auto [number, request] = parse_request(*line);
      g_crash_context.id = id = number;
      opening = std::holds_alternative<request::Open>(request);
      if (std::holds_alternative<request::Bye>(request)) {
        server.close();
        return 0;
      }
      answer = std::visit([&](const auto& message) { return server.answer(message); }, request);
    } catch (const ProtocolError& error) {
      answer = reply::Failed{error.what()};
    } catch (const HostLimit& error) {
      answer = reply::HostLimit{error.what()};
    } catch (const std::exception& error) {
      answer = reply::Failed{"threw an exception: " + bounded_text(error.what(), kMaxTextBytes)};
    } catch (...) {
      answer = reply::Failed{"threw an exception that is no std::exception"};
    }
    if (auto* failed = std::get_if<reply::Failed>(&answer); opening && failed != nullptr) {
      answer = reply::Refused{failed->reason};
    }
    if (getpid() != own) _exit(0);  // a call that forked came back twice, and one process answers
    std::fflush(nullptr);           // what the plug-in printed belongs to this call
    if (!send_all(kControlDescriptor, to_line(id, answer))) return kExitChannelLost;
  }
}

// The worker itself: its exit status.
int work() {
  if (fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC) != 0 ||
      fcntl(kMemoryDescriptor, F_SETFD, FD_CLOEXEC) != 0) {
    std::fputs("assay-worker is started by the assay program: see protocol.md\n", stderr);
    return kExitUsage;
  }
  const rlimit no_core{0, 0};  // crashes are expected here, and reported
  setrlimit(RLIMIT_CORE, &no_core);
  install_crash_report();
  end_with_parent();
  const int status = serve();
  std::fflush(nullptr);
  return status;
}

}  // namespace
}  // namespace assay

// Ends without the destructors of libraries that may already be in disorder.
int main(int argc, char** argv) try {
  std::vector<std::string> words(argv, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  assay::take_plain_name(argc, argv);
  const bool keeps = argc > 1 && words[1] == assay::kKeepOption;
  _exit(keeps ? assay::keep(arguments.data() + 2, assay::work) : assay::work());
} catch (const std::exception& error) {
  std::fputs(error.what(), stderr);
  return assay::kExitUsage;
}
