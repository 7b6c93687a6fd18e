// The guards of assay-worker for a worker in another language: the shared memory mapped with the access that
// each request names, and the line that tells of a fault. Plain C functions, to be called by ctypes or the
// like.
#include <sys/types.h>

#include <mutex>
#include <string>
#include <vector>

#include "harness/worker/crash_report.hpp"
#include "harness/worker/slot_mapping.hpp"

#define ASSAY_GUARDS_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

assay::SlotMapping& mapping() {
  static auto* const memory = new assay::SlotMapping;  // never destroyed: views of it may outlive everything
  return *memory;
}

// What a framework has freed and Python has not asked for yet.
struct Freed {
  std::mutex mutex;
  std::vector<void*> addresses;
};
Freed& freed() {
  static auto* const list = new Freed;
  return *list;
}

}  // namespace

// From here on a fatal signal sends the crash line of protocol.md.
ASSAY_GUARDS_EXPORT void assay_guards_install() { assay::install_crash_report(); }

// The request under way, which a crash line answers.
ASSAY_GUARDS_EXPORT void assay_guards_request(std::int64_t id) { assay::g_crash_context.id = id; }

// Maps `memory_bytes` of the shared memory, with access to `count` slots of {offset, bytes, writable} alone.
// Where it begins; null where the kernel refuses, and `reason` (of 256 bytes) says why.
ASSAY_GUARDS_EXPORT void* assay_guards_adopt(std::int64_t memory_bytes, const std::int64_t* slots, int count,
                                             char* reason) {
  try {
    std::vector<assay::SlotMessage> messages;
    for (int i = 0; i < count; ++i)
      messages.push_back({slots[3 * i], slots[3 * i + 1], slots[3 * i + 2] != 0});
    mapping().adopt(memory_bytes, messages);
    assay::g_crash_context.memory = mapping().data();
    assay::g_crash_context.memory_bytes = mapping().bytes();
    return mapping().data();
  } catch (const std::exception& error) {
    const std::string text = std::string(error.what()).substr(0, 255);
    text.copy(reason, text.size());
    reason[text.size()] = '\0';
    return nullptr;
  }
}

// The free function of PyTorch's pluggable allocator. A destructor may call it while an exception of Python
// is on its way, in which no function of Python may run: that would lose the exception.
ASSAY_GUARDS_EXPORT void assay_guards_free(void* address, ssize_t, int, void*) {
  const std::lock_guard lock(freed().mutex);
  freed().addresses.push_back(address);
}

// The next address that was freed; null: none is left.
ASSAY_GUARDS_EXPORT void* assay_guards_next_freed() {
  const std::lock_guard lock(freed().mutex);
  if (freed().addresses.empty()) return nullptr;
  void* const address = freed().addresses.back();
  freed().addresses.pop_back();
  return address;
}
