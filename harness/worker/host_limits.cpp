#include "harness/worker/host_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace assay {
namespace {

constexpr rlim_t kMiB = rlim_t{1} << 20, kGiB = rlim_t{1} << 30;

// What a worker needs: what a Linux gives that nobody has limited, or, where it limits nothing, a plug-in
// with its libraries and the memory of a first call.
struct Row {
  __rlimit_resource_t resource;
  const char* what;
  const char* option;  // of ulimit
  bool bytes;
  rlim_t least;
  bool reachable;  // a call that is large enough meets any value
};
constexpr Row kRows[] = {
    {RLIMIT_STACK, "stack", "-s", true, 8 * kMiB, false},
    {RLIMIT_NOFILE, "open files", "-n", false, 1024, false},
    {RLIMIT_AS, "address space", "-v", true, kGiB, true},
    {RLIMIT_DATA, "data", "-d", true, kGiB, true},
    {RLIMIT_FSIZE, "size of a file", "-f", true, kGiB, true},
    {RLIMIT_NPROC, "processes", "-u", false, 256, false},
    {RLIMIT_CPU, "seconds of processor time", "-t", false, 60, true},
};

std::string amount(const Row& row, rlim_t value) {
  if (value == RLIM_INFINITY) return "no limit";
  if (!row.bytes) return fmt::format("{}", value);
  if (value >= kGiB) return fmt::format("{:.3g} GiB", static_cast<double>(value) / kGiB);
  if (value >= kMiB) return fmt::format("{:.3g} MiB", static_cast<double>(value) / kMiB);
  return fmt::format("{:.3g} KiB", static_cast<double>(value) / 1024);
}

rlim_t allowed(const Row& row) {
  rlimit now{};
  return getrlimit(row.resource, &now) == 0 ? now.rlim_cur : RLIM_INFINITY;
}

std::string raise() {
  std::string low;
  for (const Row& row : kRows) {
    rlimit now{};
    if (getrlimit(row.resource, &now) != 0 || now.rlim_cur >= row.least) continue;
    now.rlim_cur = std::min(row.least, now.rlim_max);
    setrlimit(row.resource, &now);
    if (const rlim_t left = allowed(row); left < row.least)
      low += fmt::format("{}{}: {} (ulimit {}), and workers need {}", low.empty() ? "" : "; ", row.what,
                         amount(row, left), row.option, amount(row, row.least));
  }
  return low.empty() ? "" : "limits of this host are too low, and may not be raised: " + low;
}

}  // namespace

const std::string& raise_host_limits() {
  static const std::string low = raise();
  return low;
}

std::string host_limits() {
  std::string text;
  for (const Row& row : kRows)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", row.what, amount(row, allowed(row)));
  return text;
}

std::string reachable_host_limits() {
  std::string text;
  for (const Row& row : kRows)
    if (const rlim_t value = allowed(row); row.reachable && value != RLIM_INFINITY)
      text += fmt::format("{}{}: {} (ulimit {})", text.empty() ? "" : ", ", row.what, amount(row, value),
                          row.option);
  return text.empty() ? "" : " (limits of this host: " + text + ")";
}

}  // namespace assay
