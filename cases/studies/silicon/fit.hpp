// Which model fits: an instruction's outputs against its unit, the unit's neighbours, and other hypotheses.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/silicon/campaign.hpp"

namespace assay::silicon {

struct Fit {
  std::string model;
  std::uint64_t outputs = 0, mismatches = 0;
};

// Scalar models over every `stride`-th output of batches of at most 4 steps, until `outputs` are compared.
std::vector<Fit> fit(const Instruction& how, std::uint64_t seed, std::uint64_t outputs, const Runner& run);

}  // namespace assay::silicon
