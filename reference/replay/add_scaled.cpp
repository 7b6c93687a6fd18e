#include "reference/replay/add_scaled.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/replay/add_scaled.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add_scaled_row(float w, const float* v, float* o, std::size_t count, bool fused) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  // These targets have no fused instruction, and Highway would round twice.
#if HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SSSE3 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  if (fused)
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::MulAdd(hn::Set(d, w), hn::LoadU(d, v + i), hn::LoadU(d, o + i)), d, o + i);
#endif
  if (!fused)
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::Add(hn::Mul(hn::Set(d, w), hn::LoadU(d, v + i)), hn::LoadU(d, o + i)), d, o + i);
  for (; i < count; ++i) {
    const float product = w * v[i];
    o[i] = fused ? std::fma(w, v[i], o[i]) : o[i] + product;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {

HWY_EXPORT(add_scaled_row);
void add_scaled(float w, const float* v, float* o, std::size_t count, bool fused) {
  HWY_DYNAMIC_DISPATCH(add_scaled_row)(w, v, o, count, fused);
}

}  // namespace assay
#endif
