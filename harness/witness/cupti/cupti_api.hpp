// What is read of CUPTI, in CUDA 12 and 13 alike: the numbers of its enumerations, and the front of its
// records, whose members stand where they stood in every version since 12.0 (cupti_layout_test.cpp compares
// them with NVIDIA's header where that is installed). So the witness is built without a toolkit, and finds
// the library by its name when it is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace assay::cupti {

inline constexpr int kSuccess = 0;
inline constexpr std::uint32_t kFlushForced = 1;
enum Kind : std::uint32_t { kKernel = 3, kConcurrentKernel = 10, kMemory2 = 49 };
enum MemoryKind : std::uint32_t { kDevice = 3, kManaged = 5 };
enum MemoryOperation : std::uint32_t { kAllocation = 1, kRelease = 2 };

struct Record {
  Kind kind;
};

// CUpti_ActivityKernel9 of CUDA 12, CUpti_ActivityKernel10 of CUDA 13.
struct KernelRecord {
  Kind kind;
  std::uint32_t not_read[3];
  std::uint64_t start, end;  // ns
  std::uint32_t not_read_either[4];
  std::uint32_t stream;
  std::int32_t grid[3], block[3];
  std::uint32_t nor_this[7];
  const char* name;  // CUPTI's, for the life of the process
};

// CUpti_ActivityMemory3 of CUDA 12, CUpti_ActivityMemory4 of CUDA 13.
struct MemoryRecord {
  Kind kind;
  MemoryOperation operation;
  MemoryKind memory;
  std::uint32_t not_read;
  std::uint64_t address, bytes, timestamp;
};

using GiveBuffer = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records);
using TakeBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                            std::size_t valid_bytes);

// The functions of one CUPTI.
struct Library {
  int (*register_callbacks)(GiveBuffer, TakeBuffer) = nullptr;
  int (*enable)(Kind) = nullptr;
  int (*flush_all)(std::uint32_t flags) = nullptr;
  int (*next_record)(std::uint8_t* buffer, std::size_t valid_bytes, Record** record) = nullptr;
  int (*dropped_records)(void* context, std::uint32_t stream, std::size_t* dropped) = nullptr;
  int (*result_string)(int result, const char** text) = nullptr;
  int (*version)(std::uint32_t* version) = nullptr;

  std::string reason(int result) const;
};

// Which libraries are asked, in this order: those that ASSAY_CUPTI names (between colons), one that the
// process has loaded, and what the loader finds as libcupti.so.13 and libcupti.so.12.
std::vector<std::string> candidates();
// "": `out` is the library; else why there is none. It stays loaded.
std::string open(const std::string& name, Library& out);

}  // namespace assay::cupti
