// What `ulimit` leaves to the processes that are started here. A kernel that dies of them is not at fault.
#pragma once

#include <string>

namespace assay {

// Raises each limit of this process that is lower than what workers need, as far as it may be raised, once.
// Returns why that is not enough: "limits of this host are too low, ...: stack: 128 KiB (ulimit -s), and
// workers need 8 MiB"; or "".
const std::string& raise_host_limits();

// The limits that workers get: "stack: 8 MiB, open files: 1024, address space: no limit, ...".
std::string host_limits();

// Of those which a large call may reach, with a blank in front: " (limits of this host: address space: 6 GiB
// (ulimit -v))"; "" when there is none.
std::string reachable_host_limits();

}  // namespace assay
