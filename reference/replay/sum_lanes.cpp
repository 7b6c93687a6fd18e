#include "reference/replay/sum_lanes.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/replay/sum_lanes.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kSumLanes>;
using V = hn::Vec<D>;

// a b + c in one rounding; these targets have no such instruction, and Highway would round twice.
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
HWY_INLINE V fused(D d, V a, V b, V c) {
  HWY_ALIGN float x[kSumLanes], y[kSumLanes], z[kSumLanes];
  hn::Store(a, d, x), hn::Store(b, d, y), hn::Store(c, d, z);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, z);
}
#else
HWY_INLINE V fused(D, V a, V b, V c) { return hn::MulAdd(a, b, c); }
#endif

template <bool kBroadcast, bool kProducts, bool kFma>
void run(const SumPlan& plan, const LaneTerms& terms, float* registers) {
  const D d;
  for (std::size_t j = 0; j < kSumLanes; j += hn::Lanes(d)) {
    for (const SumOp& op : plan.ops) {
      float* at = registers + static_cast<std::size_t>(op.at) * kSumLanes + j;
      switch (op.kind) {
        case SumOp::first:
        case SumOp::step: {
          const auto k = static_cast<std::size_t>(op.begin);
          const V a = kBroadcast ? hn::Set(d, terms.a[k]) : hn::LoadU(d, terms.a + k * kSumLanes + j);
          V sum = a;
          if constexpr (kProducts) {
            const V b = hn::LoadU(d, terms.b + k * kSumLanes + j);
            if (op.kind == SumOp::first)
              sum = hn::Mul(a, b);
            else
              sum = kFma ? fused(d, a, b, hn::LoadU(d, at)) : hn::Add(hn::Mul(a, b), hn::LoadU(d, at));
          } else if (op.kind == SumOp::step) {
            sum = hn::Add(a, hn::LoadU(d, at));
          }
          hn::StoreU(sum, d, at);
          break;
        }
        case SumOp::add:
          hn::StoreU(hn::Add(hn::LoadU(d, at),
                             hn::LoadU(d, registers + static_cast<std::size_t>(op.from) * kSumLanes + j)),
                     d, at);
          break;
        case SumOp::zero:
          hn::StoreU(hn::Zero(d), d, at);
          break;
        case SumOp::block:
        case SumOp::round:
          break;
      }
    }
  }
}

void run_plan(const SumPlan& plan, const LaneTerms& terms, float* registers) {
  if (terms.b == nullptr)
    run<false, false, false>(plan, terms, registers);
  else if (terms.broadcast)
    plan.fma ? run<true, true, true>(plan, terms, registers) : run<true, true, false>(plan, terms, registers);
  else
    plan.fma ? run<false, true, true>(plan, terms, registers)
             : run<false, true, false>(plan, terms, registers);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {

HWY_EXPORT(run_plan);

bool is_plain_f32(const SumPlan& plan) {
  return plan.unit == nullptr && std::all_of(plan.ops.begin(), plan.ops.end(),
                                             [](const SumOp& op) { return op.width == Width::f32; });
}

void run_lanes(const SumPlan& plan, const LaneTerms& terms, float* registers) {
  HWY_DYNAMIC_DISPATCH(run_plan)(plan, terms, registers);
}

}  // namespace assay
#endif
