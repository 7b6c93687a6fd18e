#include "cases/silicon/self_test.hpp"

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
  constexpr int kLargestSteps = 8;
  std::vector<SelfTest> results;
  for (const Instruction& how : instructions()) {
    if (find_matrix_unit(how.unit) == nullptr) continue;  // no model to plant a change in
    const MatrixUnit& unit = matrix_unit(how.unit);
    for (const Change& change : changes(unit)) {
      MatrixUnit planted = unit;
      change.apply(planted);
      const Tally tally = compare(how, unit, {seed, outputs, threads, kLargestSteps}, [&]() -> Runner {
        return [&](Batch& batch) { run_on_model(batch, planted); };
      });
      results.push_back({std::string(how.name), change.name, tally.outputs, tally.mismatches});
    }
  }
  return results;
}

}  // namespace assay::silicon
