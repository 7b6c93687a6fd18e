// The instructions that assay-silicon runs, each with the matrix unit of reference/arithmetic that claims its
// bits.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cases/studies/silicon/device.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay::silicon {

struct Instruction {
  Opcode opcode;
  std::string_view name;  // as the opcode is spelt
  std::string_view unit;  // of reference/arithmetic
  std::string_view a_format, b_format;
  std::string_view out;              // f32 | f16: what C and D are stored in
  int depth;                         // k of one step, elements of kStepBytes of a row
  std::string_view targets = "9.0";  // architectures that have it, space separated

  int element_bytes() const { return kStepBytes / depth; }
  int accumulator_bytes() const { return out == "f32" ? 4 : 2; }
};

std::span<const Instruction> instructions();  // of Hopper
// Those that an architecture has, of Hopper or AMD. WMMA on FP8 is 16 deep: two of them are a step, chained
// through the accumulator.
std::vector<const Instruction*> instructions_of(std::string_view architecture);
std::vector<std::string_view> architectures();          // that have one, each once
const Instruction& instruction(std::string_view name);  // throws InputError unknown_name

// Operand codes as they stand in memory: a tf32 is the upper 19 bits of an f32.
std::uint32_t load_code(const Instruction& how, const unsigned char* element);
void store_code(const Instruction& how, std::uint32_t code, unsigned char* element);

// Codes of C and D as numbers, exact; NaN for every NaN.
float accumulator_number(const Instruction& how, std::uint32_t code);
std::uint32_t load_accumulator(const Instruction& how, const unsigned char* element);
void store_accumulator(const Instruction& how, std::uint32_t code, unsigned char* element);

// Equal bit for bit, any two NaN being equal.
bool same_number(float x, float y);

}  // namespace assay::silicon
