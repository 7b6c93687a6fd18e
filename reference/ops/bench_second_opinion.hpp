// The second opinion calibrated on kernels that are right: dot products in honest arithmetic and every usual
// order, each output's error against its likely limit. Measured by `bench_reference second_opinion`;
// reports/results/second_opinion.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace assay {

struct OpinionFigure {
  std::string accumulator, order, fill;  // "f32", "sequential fused", "gaussian"
  std::int64_t terms = 0;
  std::size_t outputs = 0;
  std::size_t suspect = 0;   // outputs beyond the likely limit
  double largest = 0;        // error / likely limit
  double one_in_10000 = 0;   // error / likely limit that one output in 10,000 exceeds
  double proof_over_it = 0;  // median of proven limit / likely limit
};

// `outputs`: of all figures together, at the least. Accumulators in 16 bits get a tenth of them.
void measure_second_opinion(std::size_t outputs, const std::function<void(const OpinionFigure&)>& each);

}  // namespace assay
