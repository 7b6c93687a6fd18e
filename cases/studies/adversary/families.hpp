// The rows of families(): one file each, or one for ops that share their kernels.
#pragma once

#include "cases/studies/adversary/family.hpp"

namespace assay::adversary {

extern const Family kArgmaxFamily, kAttentionFamily, kDequantizeFamily, kKvWriteFamily, kLayernormFamily,
    kLogsumexpFamily, kMatmulFamily, kMoeFamily, kQuantizeFamily, kRequantizeFamily, kRmsnormFamily,
    kSoftmaxFamily, kWhtFamily;

}  // namespace assay::adversary
