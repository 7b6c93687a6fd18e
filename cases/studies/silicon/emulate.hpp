// What reference/arithmetic says a batch must give.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases/studies/silicon/draw.hpp"
#include "reference/arithmetic/neighbours.hpp"

namespace assay::silicon {

// Rows of operands and one accumulator as numbers, for the scalar models.
struct Element {
  std::vector<float> a, b;
  float c;
};
Element element_of(const Batch& batch, int tile, int row, int col);

// The numbers of D under `unit` (the instruction's own, or one with a parameter changed), [tiles][64][64].
std::vector<float> emulate(const Batch& batch, const MatrixUnit& unit);

// In the GPU's place: D as `unit` gives it, written as codes. For the self-test.
void run_on_model(Batch& batch, const MatrixUnit& unit);

std::string hex_codes(const Instruction& how, const unsigned char* row, int depth);
std::uint32_t accumulator_code(const Instruction& how, float x);  // x representable in how.out

}  // namespace assay::silicon
