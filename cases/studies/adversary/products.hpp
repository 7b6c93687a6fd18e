// What the kernels of matmul and moe share: operands by path, and dot products of them.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {

struct Row {
  std::vector<double> x;  // what is multiplied
  double scale = 1;       // path codes: applied afterwards
};
// Row `index` of a tensor, its operands in the type of the path ("f32", "f16", "bf16" or "codes"). Choice
// `steps`: how it is decoded.
Row operand_row(const Problem& p, const std::string& tensor, std::int64_t index, std::string_view path);

// The path that the op takes by itself for these formats.
std::string own_path(const std::string& a, const std::string& b);
// Choices `acc`, `sum`, `fused`: one dot product, scales applied.
double dot(const Problem& p, const Row& a, const Row& b, bool codes);
// Codes summed, and the scales of both rows, as the choice `epilogue` has it.
double with_scales(const Problem& p, double sum, const Row& a, const Row& b);
// dequant_roundings of these formats by the choice `steps`.
void say_decoding(const std::vector<std::string>& formats, const Choices& c, Words& words);
// acc and order: true of dot() for this path.
void say_dot(const std::string& path, bool integers, const Choices& c, Words& words);
// Integer codes are summed in i32, whatever was drawn.
Choices with_accumulator(const Choices& c, bool integers);
bool integer_codes(const std::string& a, const std::string& b);

}  // namespace assay::adversary
