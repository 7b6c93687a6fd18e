#include "reference/real/exp_array.hpp"

#include <fmt/format.h>

#include "reference/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/real/exp_array.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "reference/real/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

void exp_loop(const double* hi, const double* lo, double* out, size_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto low = lo == nullptr ? hn::Zero(d) : hn::LoadU(d, lo + i);
    hn::StoreU(certified_exp(d, hn::LoadU(d, hi + i), low), d, out + i);
  }
  for (; i < n; ++i) out[i] = assay::certified_exp(hi[i], lo == nullptr ? 0.0 : lo[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(exp_loop);

void certified_exp(std::span<const double> hi, std::span<const double> lo, std::span<double> out) {
  if (hi.size() != out.size() || (!lo.empty() && lo.size() != hi.size())) {
    throw InputError(
        InputErrorKind::shape_mismatch,
        fmt::format("certified_exp: hi has {}, lo {}, out {} elements; hi and out must agree, and lo "
                    "be empty or agree too",
                    hi.size(), lo.size(), out.size()));
  }
  HWY_DYNAMIC_DISPATCH(exp_loop)
  (hi.data(), lo.empty() ? nullptr : lo.data(), out.data(), hi.size());
}

}  // namespace assay
#endif
