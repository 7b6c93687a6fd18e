// Many batches, on the GPU and by the model, compared bit for bit.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cases/studies/silicon/emulate.hpp"

namespace assay::silicon {

struct Tally {
  std::uint64_t outputs = 0, blocks = 0, mismatches = 0;
  std::uint64_t nan = 0, infinite = 0, zero = 0, subnormal = 0;  // of what the GPU gave
  std::map<int, std::uint64_t> outputs_of_steps;     // by chain length, rounded down to a power of two
  std::map<std::uint32_t, std::uint64_t> nan_codes;  // NaN payloads that were seen
  // [family of A's row][of B's row][kind of c]
  std::vector<std::uint64_t> mismatches_of =
      std::vector<std::uint64_t>(kRowFamilies.size() * kRowFamilies.size() * kAccumulatorKinds.size());
  std::vector<std::string> first;  // lines that repeat, at most kFirst
  static constexpr std::size_t kFirst = 8;

  void add(const Batch& batch, const std::vector<float>& want);
  void merge(const Tally& other);
  std::vector<std::string> worst_combinations(std::size_t n) const;  // "band x powers, near: 17"
};

// Fills batch.d. One runner a thread.
using Runner = std::function<void(Batch&)>;

struct Campaign {
  std::uint64_t seed = 1;
  std::uint64_t outputs = 0;  // at least
  int threads = 1;
  int largest_steps = kAllSteps;
  int most_tiles = kMostTiles;
  double seconds = 1e9;  // stop early, with what there is
};
// Batches 0, 1, ... until `outputs` are compared. An exception of any thread is thrown again here.
Tally compare(const Instruction& how, const MatrixUnit& unit, const Campaign& campaign,
              const std::function<Runner()>& make_runner);

// One line that names instruction, seed, batch, tile, row and column, the operands when the chain is short,
// and what was got and wanted.
std::string mismatch_line(const Batch& batch, int tile, int row, int col, float want);

}  // namespace assay::silicon
