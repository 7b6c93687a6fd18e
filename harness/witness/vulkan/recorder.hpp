// What the layer remembers: modules, pipelines, the dispatches of each command buffer, and those submitted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace assay_witness {

// Handles are pointers, or 64-bit numbers where these are not.
template <class Handle>
std::uint64_t handle_number(Handle handle) {
  return (std::uint64_t)(handle);
}

inline std::uint64_t fnv1a(const void* data, std::size_t bytes) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001B3U;
  return hash;
}

// Where a grid is known from: the call, a slot that the device fills, or not at all.
inline constexpr std::int32_t kDirect = -1, kUnknownGrid = -2;

struct Pipeline {
  std::string entry;
  std::string constants;  // "0=8,1=17"
  std::uint64_t spirv = 0;
};
struct Dispatched {
  Pipeline pipeline;
  std::array<std::uint32_t, 3> grid{};
  std::int32_t slot = kDirect;
  bool indirect = false;
};

// Not synchronised: the layer's lock is held around every call.
class Recorder {
 public:
  static Recorder& instance();

  void module(std::uint64_t handle, const void* words, std::size_t bytes) {
    modules_[handle] = fnv1a(words, bytes);
  }
  std::uint64_t module_hash(std::uint64_t handle) const;
  void pipeline(std::uint64_t handle, Pipeline pipeline) { pipelines_[handle] = std::move(pipeline); }

  void begin(std::uint64_t commands) { recorded_[commands] = {}; }
  void bind(std::uint64_t commands, std::uint64_t pipeline) { recorded_[commands].bound = pipeline; }
  void dispatch(std::uint64_t commands, std::array<std::uint32_t, 3> grid, std::int32_t slot);
  void execute(std::uint64_t primary, std::uint64_t secondary);
  void submit(std::uint64_t commands);

  // Grids that the device has written by now: three words a slot. Writes the log's lines.
  void finish(const std::uint32_t* grids);
  // {"by": "...", "kernels": [...]} of what was submitted since the last call; finish() first.
  std::string collect();

 private:
  struct Commands {
    std::uint64_t bound = 0;
    std::vector<Dispatched> dispatches;
  };
  std::map<std::uint64_t, std::uint64_t> modules_;
  std::map<std::uint64_t, Pipeline> pipelines_;
  std::map<std::uint64_t, Commands> recorded_;
  std::vector<Dispatched> submitted_;
  std::size_t logged_ = 0;
  std::size_t lost_ = 0;
};

}  // namespace assay_witness
