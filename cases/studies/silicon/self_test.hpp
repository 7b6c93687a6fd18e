// Whether the comparison notices: the model against itself with one parameter changed, no GPU.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/silicon/campaign.hpp"

namespace assay::silicon {

struct SelfTest {
  std::string instruction, change;  // change: "" for the correct counterpart
  std::uint64_t outputs, mismatches;
  bool ok() const { return outputs > 0 && (mismatches > 0) == !change.empty(); }
};

// Every instruction unchanged, with F +- 1, twice and half the group, and the other rounding.
std::vector<SelfTest> self_test(std::uint64_t seed, std::uint64_t outputs, int threads);

}  // namespace assay::silicon
