// Formats whose blocks hold a minimum: number = scale code + m (q4_1, q5_1), or d scale code - dmin m (q2_K,
// q4_K, q5_K); and those whose codes have an offset, d (code - 8) (q4_0), d (code - 16) (q5_0), d scale (code
// - 4) (q3_K) or d scale (code - 32) (q6_K), which a kernel may take for one: ggml's q6_K on AVX2 sums d
// scale code and -32 d scale apart, in f32.
#pragma once

#include <vector>

#include "reference/formats/format.hpp"

namespace assay {

// m of every element of row `index`, the last axis of `tensor` being a row; empty for formats without one.
std::vector<double> minima(const Encoded& tensor, std::int64_t index);

}  // namespace assay
