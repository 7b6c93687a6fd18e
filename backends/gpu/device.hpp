// The device and the memory of one run. Host side only: no header of CUDA or HIP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/view.hpp"
#include "backends/plugin/call.hpp"

namespace assay_gpu {

struct DeviceInfo {
  std::string name;     // "NVIDIA H200"
  std::string version;  // "driver 13.0, runtime 13.0"
  int major = 0;        // compute capability; gfx number / 100 and % 100 on AMD
  int minor = 0;
  int multiprocessors = 1;
  std::size_t shared_bytes = 48 << 10;  // that one block can ask for
};

// The first device. Throws Failed with the driver's own words when there is none.
DeviceInfo open_device();

class SparseSpan;

// The device memory of one run. Each tensor of the call is a buffer of its own that holds the tensor's span,
// gaps between rows included: inputs as they are, outputs with the poison that the worker put there. Before
// and behind each buffer, temporaries too, lies a guard zone with a poison that changes from run to run. A
// tensor whose rows are farther apart than the device is large has all its addresses, but memory only where
// its rows are.
class Memory {
 public:
  // Uploads. guards = false: none, so that compute-sanitizer sees an access past the end.
  Memory(const assay_call& call, bool guards);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  View input(std::string_view name) const;  // throws Unsupported when it is missing
  View output(std::string_view name) const;
  View optional_input(std::string_view name) const;  // data == nullptr when it is missing
  // A tensor with its companions as `format` says.
  Planes input_planes(std::string_view name, std::string_view format) const;
  Planes output_planes(std::string_view name, std::string_view format) const;

  // Poisoned memory that lives as long as this object, 256-byte aligned.
  void* temporary(std::size_t bytes);
  template <class T>
  T* temporary_array(std::int64_t count) {
    return static_cast<T*>(temporary(static_cast<std::size_t>(count) * sizeof(T)));
  }
  template <class T>
  T* upload(const std::vector<T>& values) {
    return static_cast<T*>(upload_bytes(values.data(), values.size() * sizeof(T)));
  }
  std::size_t temporary_bytes() const { return temporary_bytes_; }

  // Waits, then throws Failed on a device error, a touched guard zone or a changed input; else downloads the
  // outputs.
  void finish();

 private:
  explicit Memory(bool guards);
  struct Buffer {
    std::string name;
    const assay_tensor* tensor;  // nullptr: a temporary
    bool is_output;
    unsigned char* allocation;
    std::size_t before, bytes, after;    // guard zone, payload, guard zone
    std::shared_ptr<SparseSpan> sparse;  // of a tensor with far rows: what `allocation` points into
  };
  Buffer& add(std::string name, const assay_tensor* tensor, bool is_output, std::size_t bytes,
              std::size_t phase);
  Buffer& add_sparse(const assay_tensor& tensor, bool is_output, std::size_t bytes, std::size_t phase);
  void upload_elements(const Buffer& buffer) const;
  // Calls f(host, device, bytes) for each piece of a tensor: all of it, or row by row where rows are far
  // apart.
  template <class F>
  static void for_pieces(const Buffer& buffer, const F& f);
  void check_sparse(const Buffer& buffer) const;
  void* upload_bytes(const void* values, std::size_t bytes);
  const Buffer* find(std::string_view name, bool is_output) const;
  void check(const Buffer& buffer) const;
  Planes planes(std::string_view name, std::string_view format, bool is_output) const;

  bool guards_;
  int poison_;
  std::size_t temporary_bytes_ = 0;
  std::vector<Buffer> buffers_;
};

// What a kernel's run() gets.
struct Run {
  const assay_plugin::Call& call;
  Memory& memory;
  const assay_plugin::Trace& trace;
  const DeviceInfo& device;
  // After each launch: throws Failed when it was refused, else puts the device function into the trace.
  void launched(const char* device_function) const;
};

}  // namespace assay_gpu
