// The worker's mapping of the shared memory: slots with the access that the request names, everything else
// without any.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/worker/protocol.hpp"

namespace assay {

// This machine refuses to map what the request asks for (ENOMEM: the address space, or vm.max_map_count).
struct HostLimit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class SlotMapping {
 public:
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  // Cheap when nothing changed since the last run. Throws ProtocolError for slots outside the memory, and
  // HostLimit or std::runtime_error when the kernel refuses; the next call then maps anew.
  void adopt(std::int64_t memory_bytes, const std::vector<SlotMessage>& slots) {
    for (const SlotMessage& slot : slots) {
      if (slot.offset < 0 || slot.bytes < 0 || slot.offset > memory_bytes - slot.bytes) {
        throw ProtocolError("a slot ends outside the shared memory");
      }
    }
    if (static_cast<std::size_t>(memory_bytes) != bytes_) remap(static_cast<std::size_t>(memory_bytes));
    if (slots == slots_) return;
    for (const SlotMessage& slot : slots_) protect(slot, PROT_NONE);
    slots_ = slots;
    for (const SlotMessage& slot : slots_) protect(slot, slot.writable ? PROT_READ | PROT_WRITE : PROT_READ);
  }

 private:
  void unmap() {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
    slots_.clear();
  }
  void remap(std::size_t bytes) {
    unmap();
    void* mapped = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, kMemoryDescriptor, 0);
    if (mapped == MAP_FAILED) refuse("cannot map the shared memory");
    data_ = static_cast<std::byte*>(mapped);
    bytes_ = bytes;
  }
  [[noreturn]] static void refuse(const std::string& what) {
    const std::string reason = what + ": " + std::strerror(errno);
    if (errno == ENOMEM) throw HostLimit(reason);
    throw std::runtime_error(reason);
  }
  void protect(const SlotMessage& slot, int access) {
    if (mprotect(data_ + slot.offset, static_cast<std::size_t>(slot.bytes), access) != 0) {
      const int error = errno;
      unmap();  // its access rights are those of no request
      errno = error;
      refuse("cannot set the access rights of a slot");
    }
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<SlotMessage> slots_;
};

}  // namespace assay
