#include "cases/studies/silicon/self_test.hpp"

#include <functional>

namespace assay::silicon {
namespace {

struct Change {
  std::string name;
  std::function<void(MatrixUnit&)> apply;
};

std::vector<Change> changes(const MatrixUnit& unit) {
  std::vector<Change> all = {{"", [](MatrixUnit&) {}},
                             {"F+1", [](MatrixUnit& u) { ++u.fraction_bits; }},
                             {"F-1", [](MatrixUnit& u) { --u.fraction_bits; }},
                             {"g*2", [](MatrixUnit& u) { u.group *= 2; }},
                             {"g/2", [](MatrixUnit& u) { u.group /= 2; }}};
  if (unit.combine == Combine::truncate) {
    all.push_back({"the other rounding", [](MatrixUnit& u) {
                     u.rounding =
                         u.rounding == Rounding::toward_zero ? Rounding::nearest_even : Rounding::toward_zero;
                   }});
  } else {
    all.push_back({"plain truncation", [](MatrixUnit& u) { u.combine = Combine::truncate; }});
  }
  return all;
}

}  // namespace

std::vector<SelfTest> self_test(std::uint64_t seed, std::uint64_t outputs, int threads) {
  constexpr int kLargestSteps = 8, kMostTilesHere = 8, kPatience = 30;
  std::vector<SelfTest> results;
  for (const Instruction& how : instructions()) {
    if (find_matrix_unit(how.unit) == nullptr) continue;  // no model to plant a change in
    const MatrixUnit& unit = matrix_unit(how.unit);
    for (const Change& change : changes(unit)) {
      MatrixUnit planted = unit;
      change.apply(planted);
      const auto differences = [&](std::uint64_t n) {
        return compare(how, unit, {seed, n, threads, kLargestSteps, kMostTilesHere},
                       [&]() -> Runner { return [&](Batch& batch) { run_on_model(batch, planted); }; });
      };
      Tally tally = differences(outputs);
      // Some changes show in a few outputs of a million: FP8 of 3 fraction bits seldom reaches the end of 25.
      if (!change.name.empty() && tally.mismatches == 0) tally = differences(kPatience * outputs);
      results.push_back({std::string(how.name), change.name, tally.outputs, tally.mismatches});
    }
  }
  return results;
}

}  // namespace assay::silicon
