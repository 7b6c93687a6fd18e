// How kernels decode: code and scales multiplied in some order, each step rounded.
#pragma once

#include <string_view>

#include "cases/studies/adversary/arithmetic.hpp"
#include "reference/formats/factors.hpp"

namespace assay::adversary {

// The order of the products: (code scale) second, code (scale second), (code second) scale; none: all at
// once.
inline constexpr std::string_view kDecodings = "none|none|none|left|right|first_last";
double step_by_step(const Arithmetic& m, const Factors& f, std::string_view steps);
// None of scalar formats, nor of tq3_0, whose numbers are sums.
bool is_decoded_in_steps(std::string_view format, std::string_view steps);
// Roundings of a number of the format on that way, at most: into the type, of a reciprocal, of products and
// of a difference.
double roundings_of(std::string_view steps, std::string_view format, std::string_view mid = "f32");

}  // namespace assay::adversary
