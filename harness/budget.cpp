#include "harness/budget.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace assay {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kDrawn = sizeof(float), kDecoded = sizeof(double), kJudged = 3 * sizeof(double);

double elements_of(const std::vector<std::int64_t>& shape) {
  double n = 1;
  for (const auto extent : shape) n *= static_cast<double>(extent);
  return n;
}

double encoded_bytes(const TensorSpec& t) {
  const double elements = elements_of(t.shape);
  if (elements > 0x1p56) return elements;  // beyond what planes() can count, and beyond any machine
  double bytes = 0;
  for (const auto& plane : planes(format(t.format), t.shape)) bytes += static_cast<double>(plane.bytes);
  return bytes;
}

std::optional<double> number_in(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or no such file
}

// The memory that the control group of this process leaves it, under version 2 or 1 of control groups.
double control_group_left() {
  double left = std::numeric_limits<double>::infinity();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (const std::string& folder : {root + path, root}) {
      const auto limit = number_in(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
      const auto used = number_in(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
      if (limit && used) left = std::min(left, std::max(0.0, *limit - *used));
    }
  }
  return left;
}

double machine_left() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::stod(line.substr(13));
  return std::numeric_limits<double>::infinity();
}

}  // namespace

double bytes_needed(const Case& c) {
  double inputs = 0, outputs = 0;
  for (const auto& t : c.op->tensors(c.attributes)) {
    const double elements = elements_of(t.shape), encoded = encoded_bytes(t);
    if (t.role == TensorRole::output)
      outputs += elements * kJudged + 3 * encoded;
    else
      inputs += elements * (kDrawn + kDecoded) + 2 * encoded;
  }
  return (c.fault == "none" ? 1 : 2) * inputs + outputs;
}

double weight_of(const Case& c) { return bytes_needed(c) + 0x1p20; }

double bytes_available() {
  double left = std::min(machine_left(), control_group_left());
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    left = std::min(left, static_cast<double>(limit.rlim_cur));
  return left;
}

std::string byte_text(double bytes) {
  if (!(bytes < 1e6 * kGiB)) return fmt::format("{:.1e} GiB", bytes / kGiB);
  return bytes >= kGiB ? fmt::format("{:.1f} GiB", bytes / kGiB)
                       : fmt::format("{:.0f} MiB", bytes / (kGiB / 1024));
}

MemoryShare::~MemoryShare() {
  if (budget_ != nullptr) budget_->give_back(bytes_);
}

MemoryShare MemoryBudget::take(double bytes) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return bytes <= left_; });
  left_ -= bytes;
  return {this, bytes};
}

void MemoryBudget::give_back(double bytes) {
  {
    const std::lock_guard lock(mutex_);
    left_ += bytes;
  }
  freed_.notify_all();
}

}  // namespace assay
