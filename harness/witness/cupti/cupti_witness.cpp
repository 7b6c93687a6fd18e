// The witness of NVIDIA devices: CUPTI's activity records of every kernel and every allocation in the
// process, PyTorch's, cuDNN's, ggml's or the plug-in's own. In the worker it is opened in front of the
// backend. In any other process the driver loads it when CUDA_INJECTION64_PATH names it; ASSAY_WITNESS_LOG
// then names the file that gets, at the end of the process, what it saw.
#include <cuda.h>
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/worker/assay_witness.h"
#include "harness/worker/protocol.hpp"

namespace assay {
namespace {

// The records that this version of CUPTI writes; members that are read here keep their names.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using MemoryRecord = CUpti_ActivityMemory4;
#else
using KernelRecord = CUpti_ActivityKernel9;  // CUDA 12
using MemoryRecord = CUpti_ActivityMemory3;
#endif

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

std::string reason_of(CUptiResult result) {
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  return text != nullptr ? text : "CUPTI error " + std::to_string(static_cast<int>(result));
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

  void take(const CUpti_Activity* record) {
    const std::lock_guard lock(mutex_);
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
      kernels_.push_back(*reinterpret_cast<const KernelRecord*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2) {
      const auto& memory = *reinterpret_cast<const MemoryRecord*>(record);
      const bool device = memory.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE ||
                          memory.memoryKind == CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
      const bool allocated = memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
      const bool released = memory.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
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
    witness.by = "cupti " + std::to_string(CUPTI_API_VERSION);
    std::ranges::stable_sort(kernels_, [](const auto& a, const auto& b) { return a.start < b.start; });
    for (const KernelRecord& k : kernels_) {
      if (witness.kernels.size() == kMostKernels) {
        lost_ += kernels_.size() - kMostKernels;
        break;
      }
      witness.kernels.push_back({demangled(k.name),
                                 {k.gridX, k.gridY, k.gridZ},
                                 {k.blockX, k.blockY, k.blockZ},
                                 static_cast<std::int64_t>(k.end - k.start),
                                 static_cast<std::int64_t>(k.streamId)});
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

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid_bytes) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
    Recorder::instance().take(record);
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
    Recorder::instance().lose(dropped);
  std::free(buffer);
}

// Not linked with the driver, which a machine without a device does not have. No context: nothing was
// launched; a fault is the backend's to report.
void wait_for_device() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  const auto synchronize = reinterpret_cast<CUresult (*)()>(dlsym(driver, "cuCtxSynchronize"));
  if (synchronize != nullptr) (void)synchronize();
  dlclose(driver);
}

std::string start() {
  static std::mutex mutex;
  static bool watching = false;
  const std::lock_guard lock(mutex);
  if (watching) return "";
  CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMORY2})
    if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(kind);
  watching = result == CUPTI_SUCCESS;
  return watching ? "" : "CUPTI cannot watch: " + reason_of(result);
}

std::string collect() {
  wait_for_device();
  const CUptiResult flushed = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  Witness witness = Recorder::instance().collect();
  if (flushed != CUPTI_SUCCESS) witness.error = "cuptiActivityFlushAll: " + reason_of(flushed);
  return witness_text(witness);
}

void write_log() {
  const char* path = std::getenv("ASSAY_WITNESS_LOG");
  if (path == nullptr) return;
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
