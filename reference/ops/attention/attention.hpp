// The op row of attention. Formula: problem.hpp. Value: certified.hpp. Limits: detap.hpp and bounds.hpp.
#pragma once

#include "reference/ops/op.hpp"

namespace assay {

extern const Op kAttention;

}  // namespace assay
