#include "harness/path_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace assay {
namespace {

constexpr std::size_t kMostNames = 12;
constexpr std::string_view kTemporary = "temporary_bytes=";

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

// The number behind temporary_bytes= in a backend's promises; nothing when it promises none.
std::optional<std::int64_t> temporary_bytes(std::string_view promises) {
  const auto at = promises.find(kTemporary);
  if (at == std::string_view::npos || (at > 0 && promises[at - 1] != ' ')) return std::nullopt;
  const std::string_view text = promises.substr(at + kTemporary.size());
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const bool whole = end == text.data() + text.size() || *end == ' ';
  return error == std::errc() && whole && bytes >= 0 ? std::optional(bytes) : std::nullopt;
}

PathFinding fallback(std::string summary) { return {PathFinding::Kind::fallback, std::move(summary)}; }

}  // namespace

PathFinding check_path(std::string_view path, std::string_view promises, const Trace& trace,
                       std::int64_t tensor_bytes) {
  if (!trace.witness) {
    const bool ran = std::ranges::any_of(trace.kernels, [&](const std::string& announced) {
      return announced == path || (path.ends_with('*') && names_kernel(path, announced));
    });
    if (path.empty() || ran) return {};
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
  const auto was_seen = [&](std::string_view name) {
    const auto is_it = [&](const std::string& kernel) { return names_kernel(name, kernel); };
    return std::ranges::any_of(seen, is_it) || std::ranges::any_of(witness.unwatched, is_it);
  };
  if (!path.empty() && !was_seen(path))
    return fallback(fmt::format("declared kernel {} did not run; the witness {} saw: {}", path, witness.by,
                                listed(seen)));
  for (const std::string& announced : trace.kernels)
    if (!was_seen(announced))
      return fallback(fmt::format("announced kernel {} did not run; the witness {} saw: {}", announced,
                                  witness.by, listed(seen)));
  if (const auto temporary = temporary_bytes(promises);
      temporary && !(witness.peak_bytes <= (witness.host ? 0 : tensor_bytes) + *temporary))
    return fallback(
        witness.host
            ? fmt::format("{} bytes of memory were taken at one time; the backend promises {}",
                          witness.peak_bytes, *temporary)
            : fmt::format(
                  "{} bytes of device memory were in use at one time; the tensors take {}, the backend "
                  "promises {} more",
                  witness.peak_bytes, tensor_bytes, *temporary));
  return {};
}

}  // namespace assay
