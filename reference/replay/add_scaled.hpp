// o + w v of a row, in f32: the innermost step of sums of weighted values that no matrix unit makes.
#pragma once

#include <cstddef>

namespace assay {

// o[i] = fma(w, v[i], o[i]), or with fused=false the product rounded first. Vectorised (Highway, chosen at
// run time); the bits are std::fma's.
void add_scaled(float w, const float* v, float* o, std::size_t count, bool fused);

}  // namespace assay
