// The products of a unit: operands that the path makes of stored tensors, sums as the unit forms them, scales
// in f32.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/ops/operand.hpp"

namespace assay_emulated {

// The scalar format of a format's codes; a block format's own name where it has none apart from its scales.
std::string element_of(std::string_view format);
// Throws Unsupported where the unit does not take what the path makes of formats a and b.
void check_operands(const assay::MatrixUnit& unit, std::string_view path, std::string_view a,
                    std::string_view b);
// Of (c s_a) s_b in f32, c an integer or not; of int4_ch_tensor both scales make one.
int epilogue_roundings(const assay::MatrixUnit& unit, std::string_view a, std::string_view b);

// One side, ready for the unit.
struct Operand {
  std::vector<float> values;  // [rows, k]
  std::vector<float> block_scales;
  std::vector<float> scales;  // of the epilogue, per row
  std::string element;
  std::int64_t rows = 0, k = 0;
  // Some of the rows, without block scales.
  Operand taken(std::span<const std::int64_t> which) const;
};

// The reference's own operands; of several admissible ones the least.
Operand operand_of(const assay::Encoded& tensor, const std::string& path, assay::Side side);
// [a.rows, b.rows]: blocks of g in ascending k through the unit's accumulator, promoted to f32 every
// `promote` blocks.
std::vector<float> unit_sums(const assay::MatrixUnit& unit, int promote, const Operand& a, const Operand& b);
void apply_scales(std::vector<float>& sums, const Operand& a, const Operand& b);

}  // namespace assay_emulated
