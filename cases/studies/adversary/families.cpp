#include "cases/studies/adversary/families.hpp"

#include <array>

namespace assay::adversary {

std::span<const Family> families() {
  static const std::array kFamilies = {
      kRmsnormFamily,       kLayernormFamily,       kSoftmaxFamily,  kLogsumexpFamily,  kWhtFamily,
      kArgmaxFamily,        kDequantizeFamily,      kMatmulFamily,   kMatmulUnitFamily, kMatmulTf32Family,
      kMatmulE4m3fnFamily,  kMatmulBlocksFamily,    kMatmulQ8Family, kMoeFamily,        kAttentionFamily,
      kAttentionUnitFamily, kAttentionStoredFamily, kQuantizeFamily, kRequantizeFamily, kKvWriteFamily,
  };
  return kFamilies;
}

}  // namespace assay::adversary
