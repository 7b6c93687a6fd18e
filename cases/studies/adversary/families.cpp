#include "cases/studies/adversary/families.hpp"

#include <array>

namespace assay::adversary {

std::span<const Family> families() {
  static const std::array kFamilies = {
      kRmsnormFamily,  kLayernormFamily,  kSoftmaxFamily, kLogsumexpFamily, kWhtFamily,
      kArgmaxFamily,   kDequantizeFamily, kMatmulFamily,  kMoeFamily,       kAttentionFamily,
      kQuantizeFamily, kRequantizeFamily, kKvWriteFamily,
  };
  return kFamilies;
}

}  // namespace assay::adversary
