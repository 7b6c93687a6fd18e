// The faults that hypotheses are made of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cases/attribution/models.hpp"

namespace assay::attribution {

// Every node with every way to be wrong; loops in their lanes, too.
std::vector<Fault> faults(std::span<const Node> nodes);
// "an addition of q.k: in 11 bits, in 8 sums side by side".
std::string in_words(const Node& at, const Fault& f);

}  // namespace assay::attribution
