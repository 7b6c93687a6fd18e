// The 23 planted defects of an attention kernel at a long context: wrong kernels whose arithmetic is emulated
// bit for bit, so that what they do wrong is the defect and nothing else.
#pragma once

#include <cstdint>

#include "cases/studies/mutants/report.hpp"

namespace assay::mutants {

struct PlantedOptions {
  std::int64_t keys = 4096;
  int jobs = 2;
};

// One row per defect and kernel: "16-bit P" is a Hopper f16 kernel, "fp8 P" its e4m3fn sibling with two-level
// accumulation. Judged by the cast-aware and the emulated limit, and by the usual rules on the same outputs;
// the correct kernels are added to table.correct.
void add_planted(const PlantedOptions& options, KillTable& table);

}  // namespace assay::mutants
