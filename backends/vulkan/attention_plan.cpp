#include "backends/vulkan/attention_plan.hpp"

#include <algorithm>

namespace assay_vulkan {
namespace {

constexpr std::int64_t kPartKeys = 1024;

}  // namespace

std::uint32_t rows_of(const Call& call, const Device& device) {
  const std::int64_t rows = call.integer("q") * (call.integer("heads") / call.integer("kv_heads"));
  const std::int64_t bytes = 6 * call.integer("d") + 4 * call.integer("dv");  // with the codes of q8
  std::uint32_t count = 1;
  while (count < 8 && count < rows && 2 * count * bytes <= device.can().shared_bytes) count *= 2;
  return count;
}

// Per step of lanes() keys: its blocks of K, its rows, and its groups of four keys of V with their addresses.
std::int64_t keys_at_a_time(const Call& call, const Device& device) {
  const std::int64_t lanes = device.subgroup();
  const std::int64_t d = call.integer("d"), dv = call.integer("dv");
  const std::int64_t step =
      (d / 32 + 1) * 12 + 4 * rows_of(call, device) + (lanes / 4 + 1) * (dv / lanes + 20) + 16;
  const std::int64_t items = call.integer("batch") * call.integer("heads") * call.integer("q");  // at most
  const std::int64_t loops = device.can().loop_limit / Session::passes(items) - 10 * (d + dv);
  return std::max<std::int64_t>(1, loops / step) * lanes;
}

std::int64_t part_count(const Call& call, const Device& device) {
  const std::int64_t keys = std::min(kPartKeys, keys_at_a_time(call, device));
  return std::max<std::int64_t>(2, (call.integer("len") + keys - 1) / keys);
}

std::int64_t part_keys(std::int64_t len, std::int64_t parts) { return (len + parts - 1) / parts; }

}  // namespace assay_vulkan
