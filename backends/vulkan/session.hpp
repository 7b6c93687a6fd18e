// One call on the device: its tensors placed in device memory with their strides, scratch beside them, and
// the dispatches. What the kernels wrote comes back; bytes of the margins that changed are a failure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/plugin/call.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/formats.hpp"

namespace assay_vulkan {

using assay_plugin::Call;
using assay_plugin::Failed;
using assay_plugin::Trace;
using assay_plugin::Unsupported;

class Session {
 public:
  Session(Device& device, const Call& call);

  const Call& call() const { return call_; }
  Device& device() { return device_; }

  // Addresses in what these return are offsets until run().
  DeviceTensor tensor(std::string_view name) const;                          // an input or output
  DeviceOperand operand(std::string_view name, const Format& format) const;  // with its scales
  // Dense f32 (or other) rows in scratch.
  std::uint64_t scratch(std::int64_t bytes);
  DeviceOperand scratch_rows(std::int64_t rows, std::int64_t length, Element element, std::int64_t middle);

  // Throws Unsupported when an invocation would go round its loops more often than the device lets it.
  static void check_loops(const Device& device, std::int64_t iterations);
  // Work items that one workgroup takes, one after the other, of so many.
  static std::int64_t passes(std::int64_t items) { return items / 65535 + 1; }

  // Enough workgroups for `units` work items of one lane each, or of one workgroup each.
  std::uint32_t groups_of_lanes(std::int64_t units) const;
  static std::uint32_t groups(std::int64_t units);

  void add(std::string name, std::string_view shader, std::vector<std::uint32_t> constants,
           std::uint32_t groups, const Params& params);
  // Announces every dispatch and runs them.
  void run(const Trace& trace);

 private:
  struct Placed {
    const assay_tensor* tensor;
    std::uint64_t offset;
    bool output;
  };
  std::uint64_t place(std::uint64_t bytes);

  Device& device_;
  const Call& call_;
  std::vector<Placed> placed_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> regions_;  // offset, bytes; margins lie between
  std::uint64_t end_ = 0;
  std::int64_t scratch_bytes_ = 0;
  std::vector<Dispatch> dispatches_;
};

}  // namespace assay_vulkan
