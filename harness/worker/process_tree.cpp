#include "harness/worker/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace assay {
namespace {

// Of at most `limit` bytes; nothing when the process is gone, or not ours to look at.
std::optional<std::string> file_text(const std::string& path, std::size_t limit = std::size_t{1} << 20) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::string text;
  char chunk[4096];
  while (text.size() < limit) {
    const ssize_t count = read(file, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  close(file);
  return text;
}

// The folder's entries that are numbers: processes, or threads.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return numbers;
  while (const dirent* entry = readdir(entries)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') numbers.push_back(std::atoi(entry->d_name));
  }
  closedir(entries);
  return numbers;
}

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }

// Number `field` of /proc/PID/stat, counted as in proc(5), for the fields behind the name.
std::int64_t stat_field(const std::string& stat, int field) {
  const auto name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::size_t at = name_end + 1;
  for (int skipped = 3; skipped <= field; ++skipped) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  return std::atoll(stat.c_str() + at);
}
constexpr int kParent = 4, kUserTime = 14, kSystemTime = 15;

// The children of every thread of the process; nothing where the kernel has no such list.
std::optional<std::vector<pid_t>> listed_children(pid_t process) {
  std::vector<pid_t> children;
  bool listed = false;
  const std::string tasks = folder_of(process) + "/task";
  for (const pid_t task : numbers_in(tasks)) {
    const auto text = file_text(tasks + "/" + std::to_string(task) + "/children");
    if (!text) continue;
    listed = true;
    const char* at = text->c_str();
    for (char* end = nullptr; const long child = std::strtol(at, &end, 10); at = end)
      children.push_back(static_cast<pid_t>(child));
  }
  if (!listed) return std::nullopt;
  return children;
}

std::vector<pid_t> children_by_search(pid_t parent) {
  std::vector<pid_t> children;
  for (const pid_t process : numbers_in("/proc")) {
    const auto stat = file_text(folder_of(process) + "/stat");
    if (stat && stat_field(*stat, kParent) == parent) children.push_back(process);
  }
  return children;
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  // A kernel has the lists or has not: whether this process has one tells.
  static const bool lists = listed_children(getpid()).has_value();
  std::vector<pid_t> found{root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<pid_t> children =
        lists ? listed_children(found[i]).value_or(std::vector<pid_t>{}) : children_by_search(found[i]);
    found.insert(found.end(), children.begin(), children.end());
  }
  found.erase(found.begin());
  return found;
}

std::map<pid_t, std::chrono::nanoseconds> processor_times(pid_t root) {
  static const auto tick = std::chrono::nanoseconds(1'000'000'000 / sysconf(_SC_CLK_TCK));
  std::map<pid_t, std::chrono::nanoseconds> times;
  std::vector<pid_t> processes = descendants(root);
  processes.push_back(root);
  for (const pid_t process : processes) {
    const std::string tasks = folder_of(process) + "/task";
    for (const pid_t thread : numbers_in(tasks)) {
      const auto stat = file_text(tasks + "/" + std::to_string(thread) + "/stat");
      if (stat) times[thread] = (stat_field(*stat, kUserTime) + stat_field(*stat, kSystemTime)) * tick;
    }
  }
  return times;
}

std::chrono::nanoseconds busiest_since(const std::map<pid_t, std::chrono::nanoseconds>& before,
                                       const std::map<pid_t, std::chrono::nanoseconds>& now) {
  std::chrono::nanoseconds most{0};
  for (const auto& [thread, time] : now) {
    const auto earlier = before.find(thread);
    most = std::max(most, earlier == before.end() ? time : time - earlier->second);
  }
  return most;
}

pid_t tracer_of(pid_t process) {
  constexpr std::string_view kField = "\nTracerPid:";
  const std::optional<std::string> status = file_text(folder_of(process) + "/status");
  const std::size_t at = status ? status->find(kField) : std::string::npos;
  return at == std::string::npos ? 0 : std::atoi(status->c_str() + at + kField.size());
}

std::vector<pid_t> started_with(std::string_view variable) {
  std::vector<pid_t> found;
  std::string entry(1, '\0');
  entry.append(variable).push_back('\0');
  for (const pid_t process : numbers_in("/proc")) {
    if (process == getpid()) continue;
    const auto environment = file_text(folder_of(process) + "/environ");
    if (environment && (std::string(1, '\0') + *environment).find(entry) != std::string::npos)
      found.push_back(process);
  }
  return found;
}

}  // namespace assay
