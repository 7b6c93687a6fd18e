// One Vulkan device as the kernels use it: what it can do, memory by address, pipelines by shader and
// specialisation constants, and a list of dispatches run to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/vulkan/api.hpp"
#include "backends/vulkan/params.hpp"

namespace assay_vulkan {

struct Capabilities {
  std::string name, driver;
  std::uint32_t api = 0;
  // Sizes that can be required; equal where there is no choice.
  std::uint32_t subgroup_min = 0, subgroup_max = 0;
  std::uint32_t subgroup_default = 0;
  bool denormals_preserved = false;  // f32, in every shader
  bool half_arithmetic = false;      // f16 sums and products
  bool integer_dot = false;
  bool matrix_f16 = false;      // cooperative matrices 16x16x16, f16 operands, f32 sums
  bool matrix_bf16 = false;     // the same with bf16
  bool matrix_int8 = false;     // 16x16x32, int8 operands, int32 sums
  std::uint32_t fp8_depth = 0;  // 16x16 by this, e4m3 operands, f32 sums; 0: none, because of no_fp8
  std::string no_fp8;
  bool matrices() const { return matrix_f16 || matrix_bf16 || matrix_int8 || fp8_depth != 0; }
  // Model of the unit that multiplies these operands, f16, bf16 or fp8, with f32 sums (hopper_f16); "" where
  // none is known.
  std::string matrix_unit(std::string_view element) const;
  std::uint64_t largest_allocation = 0;
  std::uint32_t shared_bytes = 0;
  std::string lane_fold;        // lane_fold_of
  std::int64_t loop_limit = 0;  // iterations of all loops of an invocation together
};

// The order in which a driver's subgroupAdd adds the lanes, as a schedule says it; "" where it is not known,
// or is not all that a driver does as it likes: device_test asks products, sums and quotients too.
std::string_view lane_fold_of(VkDriverId driver);

// A kernel launched: which shader, with which constants, over how many workgroups, with what parameters.
// Constant 0 is the workgroup's size, set by the device to its subgroup's. `name` says what the constants
// mean (attention_split_q8_0_f16): it becomes the entry point's, so that whoever watches the driver sees it.
struct Dispatch {
  std::string name;
  std::string_view shader;
  std::vector<std::uint32_t> constants;  // from id 1 on
  std::uint32_t groups = 1;
  Params params;
};

// options: part of a device's name, "" for the best; then "+subgroup=N" to require a size.
class Device {
 public:
  explicit Device(std::string_view options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Capabilities& can() const { return can_; }
  std::uint32_t subgroup() const { return subgroup_; }
  // One line: name, driver, subgroup sizes, what it lacks.
  std::string description() const;

  // Memory for one run: `bytes` that host and device both see, valid until the next reserve().
  std::byte* reserve(std::uint64_t bytes);
  std::uint64_t address() const { return address_; }

  // Runs the dispatches in order, each seeing what the one before wrote; returns when all are done. Params
  // are copied to `params_at`, an offset of the memory with room for all of them.
  void run(const std::vector<Dispatch>& dispatches, std::uint64_t params_at);

 private:
  void create_instance();
  void pick(std::string_view wanted);
  void examine();
  void examine_matrices(const VkPhysicalDeviceVulkan12Features& f12);
  void create_device();
  void release_memory();
  VkPipeline pipeline(const Dispatch& dispatch);
  void check(VkResult result, const char* what);

  Api vk_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::byte* mapped_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t address_ = 0;
  std::uint32_t family_ = 0;
  std::uint32_t subgroup_ = 0;
  Capabilities can_;
  std::vector<std::string> lacks_;
  std::string lost_;                           // why nothing can be run any more
  std::vector<std::uint32_t> float_controls_;  // execution modes that every shader gets
  std::map<std::pair<std::string, std::vector<std::uint32_t>>, VkPipeline> pipelines_;
  std::map<std::string, VkShaderModule> modules_;  // by entry point
};

}  // namespace assay_vulkan
