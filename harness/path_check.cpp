#include "harness/path_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace assay {
namespace {

constexpr std::size_t kMostNames = 12;

// Each name once, in the order of the first launch.
std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const auto& name : names)
    if (std::ranges::find(once, name) == once.end()) once.push_back(name);
  if (once.empty()) return "none";
  const std::size_t left_out = once.size() - std::min(once.size(), kMostNames);
  once.resize(once.size() - left_out);
  return fmt::format("{}{}", fmt::join(once, " "), left_out > 0 ? fmt::format(" and {} more", left_out) : "");
}

PathFinding fallback(std::string summary) { return {PathFinding::Kind::fallback, std::move(summary)}; }
PathFinding unwitnessed(std::string summary) { return {PathFinding::Kind::unwitnessed, std::move(summary)}; }

}  // namespace

PathFinding check_path(std::string_view path, const Promises& promises, const Trace& trace,
                       std::int64_t tensor_bytes) {
  if (!trace.witness) {
    const bool ran = std::ranges::any_of(trace.kernels, [&](const std::string& announced) {
      return announced == path || (path.ends_with('*') && names_kernel(path, announced));
    });
    if (path.empty()) return {};
    if (ran) return unwitnessed(fmt::format("nobody watched: that {} ran is the backend's own word", path));
    if (trace.kernels.empty())
      return fallback(fmt::format(
          "declared kernel {} was not seen: nobody watched, and the backend announced none", path));
    return fallback(fmt::format("declared kernel {} did not run; seen: {}", path, listed(trace.kernels)));
  }
  const Witness& witness = *trace.witness;
  if (!witness.error.empty())
    return {PathFinding::Kind::failed,
            fmt::format("the witness {} did not see everything: {}", witness.by, witness.error)};
  std::vector<std::string> seen;
  for (const SeenKernel& kernel : witness.kernels) seen.push_back(kernel.name);
  const auto is_among = [](std::string_view name, const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [&](const std::string& kernel) { return names_kernel(name, kernel); });
  };
  const auto was_seen = [&](std::string_view name) { return is_among(name, seen); };
  const auto could_be_seen = [&](std::string_view name) { return !is_among(name, witness.unwatched); };
  if (!path.empty() && !was_seen(path) && could_be_seen(path))
    return fallback(fmt::format("declared kernel {} did not run; the witness {} saw: {}", path, witness.by,
                                listed(seen)));
  for (const std::string& announced : trace.kernels)
    if (!was_seen(announced) && could_be_seen(announced))
      return fallback(fmt::format("announced kernel {} did not run; the witness {} saw: {}", announced,
                                  witness.by, listed(seen)));
  if (const auto temporary = promises.temporary_bytes;
      temporary && !(witness.peak_bytes <= (witness.host ? 0 : tensor_bytes) + *temporary))
    return fallback(
        witness.host
            ? fmt::format("{} bytes of memory were taken at one time; the backend promises {}",
                          witness.peak_bytes, *temporary)
            : fmt::format(
                  "{} bytes of device memory were in use at one time; the tensors take {}, the backend "
                  "promises {} more",
                  witness.peak_bytes, tensor_bytes, *temporary));
  if (!path.empty() && !was_seen(path))
    return unwitnessed(fmt::format("the witness {} knows no {}: no symbol has that name", witness.by, path));
  return {};
}

void keep_named_kernels(std::string_view path, const std::vector<std::string>& announced, Witness& witness) {
  if (!witness.host) return;
  std::erase_if(witness.kernels, [&](const SeenKernel& kernel) {
    return !names_kernel(path, kernel.name) && std::ranges::none_of(announced, [&](const std::string& name) {
      return names_kernel(name, kernel.name);
    });
  });
}

}  // namespace assay
