// Device memory for a tensor whose rows lie so far apart that its span is larger than the device: addresses
// are reserved for all of it, and only the granules (2 MiB) that hold rows have memory behind them. An access
// between them is an illegal address. By the driver's virtual memory functions, asked for at run time, so
// that nothing is linked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/gpu/gpu_runtime.hpp"
#include "backends/plugin/call.hpp"
#if !ASSAY_GPU_HIP
#include <cuda.h>
#endif

namespace assay_gpu {

struct ByteRange {
  std::size_t first, count;
};

#if ASSAY_GPU_HIP
class SparseSpan {
 public:
  SparseSpan(std::size_t, const std::vector<ByteRange>&) {
    throw assay_plugin::Unsupported("rows farther apart than memory: no sparse spans on this device");
  }
  unsigned char* data() const { return nullptr; }
  const std::vector<ByteRange>& mapped() const { return mapped_; }

 private:
  std::vector<ByteRange> mapped_;
};
#else
class SparseSpan {
 public:
  // used: ranges of [0, bytes) that must exist, ascending.
  SparseSpan(std::size_t bytes, const std::vector<ByteRange>& used) : SparseSpan() {
    CUmemAllocationProp place{};
    place.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    place.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    std::size_t granule = 0;
    require(driver_.granularity(&granule, &place, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "granularity");
    reserved_ = (bytes + granule - 1) / granule * granule;
    require(driver_.reserve(&base_, reserved_, 0, 0, 0),
            "reservation of " + std::to_string(reserved_) + " addresses");
    for (const ByteRange& range : used) {
      for (std::size_t at = range.first / granule * granule; at < range.first + range.count; at += granule) {
        if (mapped_.empty() || at >= mapped_.back().first + granule) map(at, granule, place);
      }
    }
  }
  ~SparseSpan() {
    for (const ByteRange& range : mapped_) driver_.unmap(base_ + range.first, range.count);
    if (base_ != 0) driver_.free(base_, reserved_);
  }
  SparseSpan(const SparseSpan&) = delete;
  SparseSpan& operator=(const SparseSpan&) = delete;

  unsigned char* data() const { return reinterpret_cast<unsigned char*>(base_); }
  const std::vector<ByteRange>& mapped() const { return mapped_; }  // one per granule, ascending

 private:
  SparseSpan() = default;
  template <class Function>
  static Function driver(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess ||
        found == nullptr)
      throw assay_plugin::Failed(std::string("the driver has no ") + name);
    return reinterpret_cast<Function>(found);
  }
  struct Driver {
    decltype(&cuMemGetAllocationGranularity) granularity =
        driver<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
    decltype(&cuMemAddressReserve) reserve = driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
    decltype(&cuMemAddressFree) free = driver<decltype(&cuMemAddressFree)>("cuMemAddressFree");
    decltype(&cuMemCreate) create = driver<decltype(&cuMemCreate)>("cuMemCreate");
    decltype(&cuMemRelease) release = driver<decltype(&cuMemRelease)>("cuMemRelease");
    decltype(&cuMemMap) map = driver<decltype(&cuMemMap)>("cuMemMap");
    decltype(&cuMemUnmap) unmap = driver<decltype(&cuMemUnmap)>("cuMemUnmap");
    decltype(&cuMemSetAccess) access = driver<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  };
  static void require(CUresult status, const std::string& what) {
    if (status != CUDA_SUCCESS)
      throw assay_plugin::Failed("sparse device memory: " + what + ": driver error " +
                                 std::to_string(status));
  }
  void map(std::size_t at, std::size_t granule, const CUmemAllocationProp& place) {
    CUmemGenericAllocationHandle handle{};
    require(driver_.create(&handle, granule, &place, 0), "a granule");
    const CUresult status = driver_.map(base_ + at, granule, 0, handle, 0);
    driver_.release(handle);  // the memory lives until it is unmapped
    require(status, "mapping of a granule");
    mapped_.push_back({at, granule});
    CUmemAccessDesc access{};
    access.location = place.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    require(driver_.access(base_ + at, granule, &access, 1), "access to a granule");
  }

  Driver driver_;
  CUdeviceptr base_ = 0;
  std::size_t reserved_ = 0;
  std::vector<ByteRange> mapped_;
};
#endif

}  // namespace assay_gpu
