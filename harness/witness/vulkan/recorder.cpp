#include "harness/witness/vulkan/recorder.hpp"

#include <cstdio>
#include <cstdlib>

namespace assay_witness {
namespace {

constexpr std::size_t kMostDispatches = 65536;  // as many as a trace keeps

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return out + "\"";
}

std::string row(const Dispatched& d) {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(d.pipeline.spirv));
  std::string name = d.pipeline.entry + "<" + d.pipeline.constants + "> spirv:" + hash;
  if (d.indirect) name += " indirect";
  return "{\"name\": " + json_text(name) + ", \"grid\": [" + std::to_string(d.grid[0]) + "," +
         std::to_string(d.grid[1]) + "," + std::to_string(d.grid[2]) + "]}";
}

}  // namespace

Recorder& Recorder::instance() {
  static Recorder* const recorder = new Recorder;  // never destroyed: calls may come while a process ends
  return *recorder;
}

std::uint64_t Recorder::module_hash(std::uint64_t handle) const {
  const auto found = modules_.find(handle);
  return found == modules_.end() ? 0 : found->second;
}

void Recorder::dispatch(std::uint64_t commands, std::array<std::uint32_t, 3> grid, std::int32_t slot) {
  Commands& recorded = recorded_[commands];
  recorded.dispatches.push_back({pipelines_[recorded.bound], grid, slot, slot != kDirect});
}

void Recorder::execute(std::uint64_t primary, std::uint64_t secondary) {
  const std::vector<Dispatched> more = recorded_[secondary].dispatches;
  std::vector<Dispatched>& all = recorded_[primary].dispatches;
  all.insert(all.end(), more.begin(), more.end());
}

void Recorder::submit(std::uint64_t commands) {
  for (const Dispatched& d : recorded_[commands].dispatches) {
    if (submitted_.size() < kMostDispatches || std::getenv("ASSAY_WITNESS_LOG") != nullptr) {
      submitted_.push_back(d);
    } else {
      ++lost_;
    }
  }
}

void Recorder::finish(const std::uint32_t* grids) {
  for (Dispatched& d : submitted_) {
    if (d.slot < 0 || grids == nullptr) continue;
    for (std::size_t axis = 0; axis < 3; ++axis)
      d.grid[axis] = grids[static_cast<std::size_t>(d.slot) * 3 + axis];
    d.slot = kDirect;
  }
  const char* path = std::getenv("ASSAY_WITNESS_LOG");
  if (path == nullptr || logged_ == submitted_.size()) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    for (; logged_ < submitted_.size(); ++logged_)
      std::fprintf(file, "%s\n", row(submitted_[logged_]).c_str());
    std::fclose(file);
  }
}

std::string Recorder::collect() {
  std::string text = "{\"by\": \"VK_LAYER_ASSAY_witness\", \"kernels\": [";
  for (std::size_t i = 0; i < submitted_.size(); ++i) text += (i == 0 ? "" : ", ") + row(submitted_[i]);
  text += "]";
  if (lost_ > 0)
    text += ", \"error\": \"" + std::to_string(lost_) + " dispatches beyond the first were not kept\"";
  submitted_.clear();
  logged_ = 0;
  lost_ = 0;
  return text + "}";
}

}  // namespace assay_witness
