// cupti_api.hpp against NVIDIA's own header. Nothing here runs: it compiles, or it does not.
#include <cuda.h>
#include <cupti.h>

#include <cstddef>

#include "harness/witness/cupti/cupti_api.hpp"

namespace assay::cupti {

#define ASSAY_SAME(theirs, their_member, ours, our_member)                      \
  static_assert(offsetof(theirs, their_member) == offsetof(ours, our_member) && \
                sizeof(theirs::their_member) == sizeof(ours::our_member))
#define ASSAY_SAME_KERNEL(theirs)                                             \
  ASSAY_SAME(theirs, kind, KernelRecord, kind);                               \
  ASSAY_SAME(theirs, start, KernelRecord, start);                             \
  ASSAY_SAME(theirs, end, KernelRecord, end);                                 \
  ASSAY_SAME(theirs, streamId, KernelRecord, stream);                         \
  ASSAY_SAME(theirs, name, KernelRecord, name);                               \
  static_assert(offsetof(theirs, gridX) == offsetof(KernelRecord, grid) &&    \
                offsetof(theirs, gridZ) == offsetof(KernelRecord, grid[2]) && \
                offsetof(theirs, blockX) == offsetof(KernelRecord, block) &&  \
                offsetof(theirs, blockZ) == offsetof(KernelRecord, block[2]))
#define ASSAY_SAME_MEMORY(theirs)                                   \
  ASSAY_SAME(theirs, kind, MemoryRecord, kind);                     \
  ASSAY_SAME(theirs, memoryOperationType, MemoryRecord, operation); \
  ASSAY_SAME(theirs, memoryKind, MemoryRecord, memory);             \
  ASSAY_SAME(theirs, address, MemoryRecord, address);               \
  ASSAY_SAME(theirs, bytes, MemoryRecord, bytes);                   \
  ASSAY_SAME(theirs, timestamp, MemoryRecord, timestamp)

ASSAY_SAME_KERNEL(CUpti_ActivityKernel9);
ASSAY_SAME_MEMORY(CUpti_ActivityMemory3);
#if CUPTI_API_VERSION >= 130000
ASSAY_SAME_KERNEL(CUpti_ActivityKernel10);
ASSAY_SAME_MEMORY(CUpti_ActivityMemory4);
#endif
static_assert(kSuccess == CUPTI_SUCCESS && kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(int{kKernel} == CUPTI_ACTIVITY_KIND_KERNEL &&
              int{kConcurrentKernel} == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
              int{kMemory2} == CUPTI_ACTIVITY_KIND_MEMORY2);
static_assert(int{kDevice} == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE &&
              int{kManaged} == CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
static_assert(int{kAllocation} == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION &&
              int{kRelease} == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);

}  // namespace assay::cupti
