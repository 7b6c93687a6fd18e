// A dot product as exact as a question needs: Dot2 first, MPFR intervals only where Dot2's bound does not
// decide.
#pragma once

#include <functional>
#include <span>

#include "reference/real/adaptive.hpp"

namespace assay {

/// sum_i x_i y_i with certificates from cheap to wide until decides(certificate) holds: level 0 is dot2
/// (about 0.3 ns a term), level 1 a 320-bit interval (about 200 ns a term; exact for f32 inputs). Shapes x
/// [n], y [n].
Escalated adaptive_dot(std::span<const double> x, std::span<const double> y,
                       const std::function<bool(Certified)>& decides);

}  // namespace assay
