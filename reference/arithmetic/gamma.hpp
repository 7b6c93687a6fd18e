// The constant of rounding-error analysis.
#pragma once

namespace assay {

// gamma_k = k u / (1 - k u); +Inf when k u >= 1. With |d_j| <= u: |prod_{j<=k} (1 + d_j)^{+-1} - 1| <=
// gamma_k (induction on k).
double gamma_n(double k, double u);

}  // namespace assay
