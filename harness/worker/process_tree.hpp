// What /proc tells of the processes below a process. A snapshot: processes come and go while it is taken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string_view>
#include <vector>

namespace assay {

// Children, their children, and so on; without `root`.
std::vector<pid_t> descendants(pid_t root);

// The processor time of each thread of `root` and of its descendants, by its number. In steps of a clock
// tick, 10 ms as a rule.
std::map<pid_t, std::chrono::nanoseconds> processor_times(pid_t root);
// The most that one thread has had since `before`; one that is not in there began after it.
std::chrono::nanoseconds busiest_since(const std::map<pid_t, std::chrono::nanoseconds>& before,
                                       const std::map<pid_t, std::chrono::nanoseconds>& now);

// Who traces the process; 0 for nobody, or one that is gone.
pid_t tracer_of(pid_t process);

// Processes that were started with this "NAME=value" in their environment.
std::vector<pid_t> started_with(std::string_view variable);

}  // namespace assay
