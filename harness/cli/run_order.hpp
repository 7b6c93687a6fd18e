// What a run begins with, and how much of it there is.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "harness/plan.hpp"

namespace assay {

// What the cases of each op weigh together: those of a group have the same shapes.
std::map<std::string, double> weights_of(const Plan& plan);

// Before the others: the groups with a case that was red in a report or record of before. Without such a
// file, as they are.
std::vector<std::size_t> failed_first(const Plan& plan, const std::string& file, bool quiet);

}  // namespace assay
