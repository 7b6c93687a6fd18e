// The rows of families(): one file each, or one for ops that share their kernels.
#pragma once

#include "cases/studies/adversary/family.hpp"

namespace assay::adversary {

extern const Family kArgmaxFamily, kAttentionFamily, kAttentionUnitFamily, kAttentionStoredFamily,
    kDequantizeFamily, kKvWriteFamily, kLayernormFamily, kLogsumexpFamily, kMatmulFamily, kMatmulUnitFamily,
    kMatmulTf32Family, kMatmulE4m3fnFamily, kMatmulBlocksFamily, kMatmulQ8Family, kMoeFamily, kQuantizeFamily,
    kRequantizeFamily, kRmsnormFamily, kSoftmaxFamily, kWhtFamily;

}  // namespace assay::adversary
