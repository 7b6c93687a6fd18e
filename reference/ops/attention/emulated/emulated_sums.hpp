// Sums of products in a scalar accumulator, ascending order, every product and every sum rounded to nearest:
// the scalar half of an emulated kernel. chain: products summed from zero before the partial sum is added in
// f32.
#pragma once

#include <cstdint>
#include <span>

#include "reference/arithmetic/rounding.hpp"

namespace assay {

float scalar_chains(const Precision& f, const float* a, const float* b, std::int64_t n, std::int64_t chain);

// o[c] += sum over keys [first, last) of p[j] v[j][c], v row-major with o.size() columns. chained: every sum
// goes through o in precision f; otherwise from zero, and the partial sum is added to o in f32.
void scalar_value_chain(const Precision& f, bool chained, std::span<const float> p, const float* v,
                        std::int64_t first, std::int64_t last, std::span<float> o);

}  // namespace assay
