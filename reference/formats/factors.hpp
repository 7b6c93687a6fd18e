// What stored numbers are products of, for limits of kernels that multiply step by step.
#pragma once

#include <cstdint>
#include <span>

#include "reference/formats/format.hpp"

namespace assay {

// number = code * scale * second - minimum * minimum_scale; of nvfp4 `second` is the global scale, by which
// decoding divides.
struct Factors {
  double code = 0;
  double scale = 1, second = 1;
  bool divides = false;
  double minimum = 0, minimum_scale = 0;
};

// Of elements [first, first + out.size()), as decode_range takes them. A scalar format has codes alone; of
// tq3_0, whose numbers are sums, code is the number and scale 1.
void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out);

}  // namespace assay
