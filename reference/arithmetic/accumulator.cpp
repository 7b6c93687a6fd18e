#include "reference/arithmetic/accumulator.hpp"

#include <array>
#include <string>
#include <vector>

#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr auto kScalar = std::to_array<Accumulator>({
    {"f64", Accumulator::Kind::floating, kPrecisionF64, nullptr},
    {"f32", Accumulator::Kind::floating, kPrecisionF32, nullptr},
    {"f16", Accumulator::Kind::floating, kPrecisionF16, nullptr},
    {"bf16", Accumulator::Kind::floating, kPrecisionBf16, nullptr},
    {"i32", Accumulator::Kind::integer, {32, 0, 30}, nullptr},
});

}  // namespace

bool find_accumulator(std::string_view name, Accumulator& found) {
  for (const Accumulator& row : kScalar) {
    if (row.name == name) return found = row, true;
  }
  if (const MatrixUnit* unit = find_matrix_unit(name)) {
    return found = {unit->name, Accumulator::Kind::unit, out_precision(*unit), unit}, true;
  }
  return false;
}

Accumulator accumulator(std::string_view name) {
  Accumulator found{};
  if (find_accumulator(name, found)) return found;
  std::vector<std::string> known = names_of(kScalar);
  for (const MatrixUnit& unit : matrix_units()) known.emplace_back(unit.name);
  throw unknown_name("accumulator", name, known);
}

}  // namespace assay
