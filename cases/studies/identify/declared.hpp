// Path from bits: whether what a kernel declares is what its bits show.
#pragma once

#include <string>

#include "reference/arithmetic/contract.hpp"
#include "reference/replay/schedule.hpp"

namespace assay {

// "" where a kernel of this schedule keeps the contract of its sums (keys acc, order, promote) for n terms; else one line that
// names the key: the kernel that ran is not the one declared, which is a `fallback`.
std::string contradiction(const Contract& contract, const Schedule& schedule, std::int64_t n);

}  // namespace assay
