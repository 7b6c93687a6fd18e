// How small an error the limits show, for what an engine's kernels can declare of themselves: the rows of the
// table in reports/results/sharpness.md, measured by bench_reference.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/ops/sharpness.hpp"

namespace assay {

// What a row says of its kernel.
//   none   the formats alone, in any order of sums
//   tiles  tiles, depths of the sums, promotion, sums in f32
//   unit   the matrix unit, its blocks of k and promotion
enum class Declared : std::uint8_t { none, tiles, unit };

struct SharpnessRow {
  Declared declared;
  std::string name;  // "attention, P in bf16"
  std::string op;
  std::string attributes;  // "heads=8 kv_heads=1 d=128 len=131072"
  std::string contract;
  bool needle = false;  // attention: one key is aimed at; else every tensor is gaussian
  double goal = 0;      // of `half`; 0: none
};
std::vector<SharpnessRow> sharpness_rows();

struct SharpnessFigure {
  SharpnessRow row;
  Sharpness seen;
  double seconds;  // of the truth, limits included
};

SharpnessFigure measure_sharpness(const SharpnessRow& row);
// One row after the other. longest: rows whose tensors have more than so many elements are left out. only:
// rows of this op, "" for all.
void measure_sharpness(double longest, const std::string& only,
                       const std::function<void(const SharpnessFigure&)>& each);

}  // namespace assay
