// Matrix units as the adversary's kernels use them: the unit of an architecture that takes given operands,
// and its sums by the model that defines it (reference/arithmetic/matrix_unit.hpp: fused_dot, not the
// vectorised one that limits are computed with).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cases/studies/adversary/norms.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay::adversary {

// The first part of a unit's name. A word that has no unit for the operands stands for "hopper", and where
// that has none either, for the first that takes them.
inline constexpr std::string_view kArchitectures =
    "hopper|hopper|hopper|blackwell|ada|a100|turing|v100|cdna1|cdna2|cdna3|cdna4|rdna35|rdna4";

// pick: which of several that fit. Units of block scales and of integers are left out unless `scales` names
// theirs.
const MatrixUnit& unit_of(std::string_view architecture, std::string_view a_format, std::string_view b_format,
                          std::int64_t pick, std::string_view scales = "");

// How a kernel feeds a unit, as choices of it: `instruction` (products of one: a whole block, or fewer),
// `blocks` (their order), `parts` (chains from zero that are added, nearly all of one length), `promote`
// (blocks of a chain before an f32 takes it).
inline constexpr std::string_view kInstructions = "whole|whole|1|2|3|8", kParts = "1|1|1|2|3|16|all",
                                  kBlockOrders = "seq|seq|rev|perm", kPromotions = "0|0|1|2|4";
// What is true of such a sum: acc, promote, order, block, split.
void say_unit(const MatrixUnit& unit, const Choices& c, Words& words);
// One operand: numbers of `format`, and of block scales one for each unit.scale_block.
struct UnitOperand {
  std::span<const double> x;
  std::string_view format;
  std::span<const float> scales = {};
};
double unit_sum(const Problem& p, const MatrixUnit& unit, const UnitOperand& a, const UnitOperand& b);

// c + sum x_i y_i: blocks in memory order chained through c.
double unit_dot(const MatrixUnit& unit, std::span<const double> x, std::string_view x_format,
                std::span<const double> y, std::string_view y_format, double c);

}  // namespace assay::adversary
