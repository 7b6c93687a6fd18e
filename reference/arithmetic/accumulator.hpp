// What a contract's accumulator token stands for.
#pragma once

#include <cstdint>
#include <string_view>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/arithmetic/rounding.hpp"

namespace assay {

// f64 f32 f16 bf16: every product and every sum rounds to nearest in that format (order: see the contract).
// i32: exact modulo 2^32. Any other token: a row of matrix_units().
struct Accumulator {
  enum class Kind : std::uint8_t { floating, integer, unit };
  std::string_view name;
  Kind kind;
  Precision precision;     // of the accumulator: of unit.out for a unit, {32, 0, 30} for i32
  const MatrixUnit* unit;  // kind unit only
};
Accumulator accumulator(std::string_view name);  // throws InputError unknown_name, listing what there is
bool find_accumulator(std::string_view name, Accumulator& found);  // false when unknown

}  // namespace assay
