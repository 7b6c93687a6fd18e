// What a process was given before a case: a defect that depends on it (a kernel that keeps buffers by batch
// alone) is red in its suite and green by its own line. The shortest history that still shows it becomes the
// `after` of the repro.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge.hpp"

namespace assay {

// Puts the worker of the case's backend where its `after` says: a new process that has been given those
// calls. Nothing for a case without. Throws InputError for a call that cannot be made.
void replay_calls(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options);

// The shortest list of calls, oldest first and a part of `calls`, after which `shows` is true: {} when it is
// so in a new process. Nothing when it is not so even after all of them, or `limit` has passed without an
// answer. Tried are: none, the last 1, 2, 4, ... of them, and then what is left when one after the other is
// dropped.
std::optional<std::vector<std::string>> shortest_history(
    const std::vector<std::string>& calls, const std::function<bool(const std::vector<std::string>&)>& shows,
    std::chrono::milliseconds limit);

}  // namespace assay
