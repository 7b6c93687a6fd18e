// certified_exp over arrays, vectorised through Highway with run-time dispatch.
#pragma once

#include <span>

namespace assay {

/// out[i] = certified_exp(hi[i], lo[i]), bit for bit the scalar one; lo may be empty (all zero). in place is
/// fine. Shapes: hi [n], lo [n] or [0], out [n]; other sizes are an InputError (shape_mismatch).
void certified_exp(std::span<const double> hi, std::span<const double> lo, std::span<double> out);

}  // namespace assay
