// One block of a matrix unit: what fused_dot chains.
#pragma once

#include <cstddef>
#include <span>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/term.hpp"

namespace assay {

// Block scales of the whole operands; empty for units without.
struct BlockScales {
  std::span<const float> a, b;
  TermFormat format;
  std::size_t block;
};

// Elements [first, first + a.size()) of the operands, at most unit.group of them, and the accumulator c.
double fused_block(const MatrixUnit& unit, std::span<const float> a, std::span<const float> b,
                   const TermFormat& fa, const TermFormat& fb, const BlockScales& scales, std::size_t first,
                   double c);

}  // namespace assay
