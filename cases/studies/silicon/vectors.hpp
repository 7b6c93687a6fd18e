// Small vectors that tell a unit's model from each of its one-parameter neighbours, with what silicon gave
// for them.
//
// A line of the file: instruction;a;b;c;d;what it tells apart. Operands are codes in hex, k ascending, zeros
// at the end left out; c and d are codes of the accumulator. Lines that begin with # say where the results
// come from.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cases/studies/silicon/emulate.hpp"

namespace assay::silicon {

struct Vector {
  const Instruction* how;
  std::vector<std::uint32_t> a, b;
  std::uint32_t c;
  std::uint32_t d;  // what silicon gave
  std::string what;
};

// From numbers of the formats; operands padded with zeros to a whole step.
Vector make_vector(const Instruction& how, const std::vector<float>& a, const std::vector<float>& b, float c,
                   std::string what);
// Codes as the numbers they stand for.
Element element_of(const Vector& v);
double model_result(const Vector& v, const MatrixUnit& unit);
bool agrees(const Vector& v, double result);  // with v.d

// Experiments written by hand: the questions that models leave open, and the corners of zeros and specials;
// of all instructions() but those of mixed formats, and of one.
std::vector<Vector> questions();
std::vector<Vector> questions(const Instruction& how);
// For each instruction, `each` vectors a neighbour of its unit on which that and the model differ, found by
// adversarial search. d is what the model gives. Deterministic.
std::vector<Vector> discriminating_vectors(int each, std::uint64_t seed);
std::vector<Vector> discriminating_vectors(const Instruction& how, int each, std::uint64_t seed);
// `count` adversarial draws, d what the model gives; a pure function of instruction, count and seed.
std::vector<Vector> drawn_vectors(const Instruction& how, int count, std::uint64_t seed);

// Replaces d by what the GPU gives: 64 vectors a tile, on its diagonal.
class Device;
void run_on_device(std::vector<Vector>& vectors, Device& device);

std::string vector_line(const Vector& v);
std::vector<Vector> read_vectors(std::istream& file);  // throws InputError with the line

}  // namespace assay::silicon
