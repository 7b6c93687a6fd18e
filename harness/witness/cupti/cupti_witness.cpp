// The witness of NVIDIA devices: CUPTI's activity records of every kernel and every allocation in the
// process, PyTorch's, cuDNN's, ggml's or the plug-in's own. In the worker it is opened in front of the
// backend. In any other process the driver loads it when CUDA_INJECTION64_PATH names it; ASSAY_WITNESS_LOG
// then names the file that gets, at the end of the process, what it saw.
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/witness/cupti/cupti_api.hpp"
#include "harness/worker/assay_witness.h"
#include "harness/worker/protocol.hpp"

namespace assay {
namespace {

using cupti::KernelRecord;
using cupti::MemoryRecord;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kBufferAlignment = 8;  // CUPTI's ACTIVITY_RECORD_ALIGNMENT
constexpr std::size_t kMostKernels = 65536;  // as many as a trace keeps

std::string demangled(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

struct MemoryEvent {
  std::uint64_t timestamp, address, bytes;
  bool allocated;
};

class Recorder {
 public:
  static Recorder& instance() {
    // Never destroyed: CUPTI may deliver buffers while the process ends.
    static Recorder* recorder = new Recorder;
    return *recorder;
  }

  // Set once, before anything is recorded.
  cupti::Library library;

  void take(const cupti::Record* record) {
    const std::lock_guard lock(mutex_);
    if (record->kind == cupti::kConcurrentKernel || record->kind == cupti::kKernel) {
      kernels_.push_back(*reinterpret_cast<const KernelRecord*>(record));
    } else if (record->kind == cupti::kMemory2) {
      const auto& memory = *reinterpret_cast<const MemoryRecord*>(record);
      const bool device = memory.memory == cupti::kDevice || memory.memory == cupti::kManaged;
      const bool allocated = memory.operation == cupti::kAllocation;
      const bool released = memory.operation == cupti::kRelease;
      if (device && (allocated || released))
        memory_.push_back({memory.timestamp, memory.address, memory.bytes, allocated});
    }
  }

  void lose(std::size_t records) {
    const std::lock_guard lock(mutex_);
    lost_ += records;
  }

  Witness collect() {
    const std::lock_guard lock(mutex_);
    Witness witness;
    std::uint32_t version = 0;
    library.version(&version);
    witness.by = "cupti " + std::to_string(version);
    std::ranges::stable_sort(kernels_, [](const auto& a, const auto& b) { return a.start < b.start; });
    for (const KernelRecord& k : kernels_) {
      if (witness.kernels.size() == kMostKernels) {
        lost_ += kernels_.size() - kMostKernels;
        break;
      }
      witness.kernels.push_back({demangled(k.name),
                                 {k.grid[0], k.grid[1], k.grid[2]},
                                 {k.block[0], k.block[1], k.block[2]},
                                 static_cast<std::int64_t>(k.end - k.start),
                                 static_cast<std::int64_t>(k.stream)});
    }
    add_memory(witness);
    if (lost_ > 0) witness.error = std::to_string(lost_) + " records lost";
    kernels_.clear();
    memory_.clear();
    lost_ = 0;
    return witness;
  }

 private:
  // A release of what was allocated before this run counts nothing.
  void add_memory(Witness& witness) {
    std::ranges::stable_sort(memory_, [](const auto& a, const auto& b) { return a.timestamp < b.timestamp; });
    std::unordered_map<std::uint64_t, std::uint64_t> live;
    std::uint64_t in_use = 0, total = 0, peak = 0;
    for (const MemoryEvent& event : memory_) {
      if (event.allocated) {
        live[event.address] = event.bytes;
        in_use += event.bytes;
        total += event.bytes;
        peak = std::max(peak, in_use);
      } else if (const auto found = live.find(event.address); found != live.end()) {
        in_use -= found->second;
        live.erase(found);
      }
    }
    witness.allocated_bytes = static_cast<std::int64_t>(total);
    witness.peak_bytes = static_cast<std::int64_t>(peak);
  }

  std::mutex mutex_;
  std::vector<KernelRecord> kernels_;  // their names belong to CUPTI, for the life of the process
  std::vector<MemoryEvent> memory_;
  std::size_t lost_ = 0;
};

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void take_buffer(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                 std::size_t valid_bytes) {
  Recorder& recorder = Recorder::instance();
  cupti::Record* record = nullptr;
  while (recorder.library.next_record(buffer, valid_bytes, &record) == cupti::kSuccess) recorder.take(record);
  std::size_t dropped = 0;
  if (recorder.library.dropped_records(context, stream, &dropped) == cupti::kSuccess) recorder.lose(dropped);
  std::free(buffer);
}

// Not linked with the driver, which a machine without a device does not have. No context: nothing was
// launched; a fault is the backend's to report.
void wait_for_device() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  const auto synchronize = reinterpret_cast<int (*)()>(dlsym(driver, "cuCtxSynchronize"));
  if (synchronize != nullptr) (void)synchronize();
  dlclose(driver);
}

// The first library that can watch: a CUPTI that is newer than the driver loads, and says no.
std::string start() {
  static std::mutex mutex;
  static bool watching = false;
  const std::lock_guard lock(mutex);
  if (watching) return "";
  std::string reasons;
  for (const std::string& name : cupti::candidates()) {
    cupti::Library library;
    std::string reason = cupti::open(name, library);
    if (reason.empty()) {
      Recorder::instance().library = library;
      int result = library.register_callbacks(give_buffer, take_buffer);
      for (const auto kind : {cupti::kConcurrentKernel, cupti::kMemory2})
        if (result == cupti::kSuccess) result = library.enable(kind);
      watching = result == cupti::kSuccess;
      if (watching) return "";
      reason = name + ": " + library.reason(result);
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return "CUPTI cannot watch: " + reasons;
}

std::string collect() {
  wait_for_device();
  const cupti::Library& library = Recorder::instance().library;
  const int flushed = library.flush_all(cupti::kFlushForced);
  Witness witness = Recorder::instance().collect();
  if (flushed != cupti::kSuccess) witness.error = "cuptiActivityFlushAll: " + library.reason(flushed);
  return witness_text(witness);
}

void write_log() {
  const char* path = std::getenv("ASSAY_WITNESS_LOG");
  if (path == nullptr || Recorder::instance().library.flush_all == nullptr) return;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", collect().c_str());
  std::fclose(file);
}

}  // namespace
}  // namespace assay

const char* assay_witness_open(void) {
  static std::string reason;
  reason = assay::start();
  return reason.empty() ? nullptr : reason.c_str();
}

const char* assay_witness_collect(void) {
  static std::string text;
  text = assay::collect();
  return text.c_str();
}

// What the CUDA driver calls in a library that CUDA_INJECTION64_PATH names. 1: success.
extern "C" ASSAY_WITNESS_EXPORT int InitializeInjection(void) {
  const std::string reason = assay::start();
  if (!reason.empty()) std::fprintf(stderr, "assay witness: %s\n", reason.c_str());
  std::atexit(assay::write_log);
  return 1;
}
