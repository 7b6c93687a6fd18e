// Inputs of the worlds of attention: one row of q against one to three keys, a value of one element.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {

// `seen`: "011", of each key; a mask tensor says so. Empty: all are seen, and there is no mask.
std::vector<Batch> attention_batches(const World& w, int n, int d, const std::string& seen,
                                     std::size_t budget);

}  // namespace assay::worlds
