// Members of quantisation: which number each element of a group may be read back as.
#pragma once

#include <string_view>
#include <vector>

#include "cases/studies/worlds/toy.hpp"
#include "reference/formats/format.hpp"

namespace assay::worlds {

struct Quantise {
  std::string_view scale = "divide", code = "any", code_scale = "any", scale_format = "f32", quotient = "f32";
  double scale_ulp = 0;
  double divisor = 0;       // "divisor: D of int8 and int4 with f32 scales"; 0: the format's
  bool stochastic = false;  // "to either neighbour"
  // "half-way ...: the code that its rule says, or either; ... the even one, or that away from zero".
  std::string_view ties = "rule";
  bool subnormals_zero = false;  // "codes below the smallest normal number of a floating format: kept, or 0"
  EncodePolicy policy;
};

// Of one group of a scaled format: code times the stored scale.
std::vector<Set> scaled_members(const Quantise& k, const Format& to, const std::vector<double>& x);
// Of one block: q8_0, q4_0, q5_0, q4_1, q5_1, iq4_nl, mxfp4, mxfp8, int4_g32_bf16; nvfp4, a tensor of one.
std::vector<Set> block_members(const Quantise& k, std::string_view to, const std::vector<double>& x);

}  // namespace assay::worlds
