// What /proc tells of the processes below a process. A snapshot: processes come and go while it is taken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace assay {

// Children, their children, and so on; without `root`.
std::vector<pid_t> descendants(pid_t root);

// Of `root`, its descendants, and all those that any of them has reaped. In steps of a clock tick, 10 ms as a rule.
std::chrono::nanoseconds processor_time(pid_t root);

// Processes that were started with this "NAME=value" in their environment.
std::vector<pid_t> started_with(std::string_view variable);

}  // namespace assay
