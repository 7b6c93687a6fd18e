#include "reference/ops/dot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/error.hpp"

namespace assay {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// Wider vectors where the machine has them; contraction stays off, and every order is within the same bound.
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
DotSums
dot_sums(const double* a, const double* b, std::int64_t n) {
  constexpr int kLanes = 32;
  double sum[kLanes] = {}, absolute[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const double p = a[i + l] * b[i + l];
      sum[l] += p;
      absolute[l] += std::fabs(p);
    }
  DotSums r;
  for (int l = 0; l < kLanes; ++l) {
    r.sum += sum[l];
    r.abs_sum += absolute[l];
  }
  for (; i < n; ++i) {
    const double p = a[i] * b[i];
    r.sum += p;
    r.abs_sum += std::fabs(p);
  }
  return r;
}

Dot::Dot(const Contract& contract, std::string_view a_element, std::string_view b_element, bool flush)
    : acc_(accumulator(contract.text("acc"))),
      order_(order_of(contract.text("order"))),
      flush_(flush),
      promote_(static_cast<std::int64_t>(contract.number("promote"))),
      epilogue_roundings_(contract.number("epilogue_roundings")),
      a_element_(a_element),
      b_element_(b_element) {
  if (acc_.kind == Accumulator::Kind::unit) {
    for (const std::string& element : {a_element_, b_element_})
      if (!accepts(*acc_.unit, element))
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("acc={} does not take {} operands; it takes {}", acc_.name, element,
                                     acc_.unit->inputs));
  } else if (acc_.kind == Accumulator::Kind::integer && (a_element_ != "int8" || b_element_ != "int8")) {
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("acc=i32 takes integer codes (path=codes), not {} x {}", a_element_, b_element_));
  }
}

double Dot::accumulation_error(const OperandRow& a, const OperandRow& b, double abs_sum) const {
  const std::int64_t n = static_cast<std::int64_t>(a.center.size());
  DotMagnitudes m{.n = n, .abs_sum = abs_sum};
  if (acc_.kind == Accumulator::Kind::floating) {
    // Products and sums that are small multiples of one unit are exact in any order, fused or not.
    const bool decided = a.reach.empty() && b.reach.empty();
    const double unit = a.grid.lsb * b.grid.lsb;
    if (decided && abs_sum == 0) return 0;
    if (decided && unit >= underflow_unit(acc_.precision) * 2 &&
        abs_sum <= std::ldexp(unit, acc_.precision.p) && abs_sum < largest_finite(acc_.precision) && !flush_)
      return 0;
    // Flushed operands lose at most the smallest normal of their type each, products and sums that of acc.
    const bool half = a_element_ == "f16" || b_element_ == "f16" || acc_.precision == kPrecisionF16;
    const double least = half ? 0x1p-14 : 0x1p-126;
    const double flushed = flush_ ? 2 * static_cast<double>(n) * least * (2 + a.max_abs + b.max_abs) : 0;
    if (order_.is_shallow()) {
      const double depth = order_.height(static_cast<double>(n));
      if (!(abs_sum * 1.5 < largest_finite(acc_.precision))) return kInfinity;
      return dot_bound_ordered(acc_.precision, static_cast<std::int64_t>(depth), m) + flushed;
    }
    return dot_bound(acc_, m) + flushed;
  }
  if (acc_.kind == Accumulator::Kind::unit && acc_.unit->combine != Combine::wrap) {
    m.head = product_head(a.max_abs, a_element_, b.max_abs, b_element_);
    if (a.scale_head > 0 && b.scale_head > 0) {  // path=blocks
      m.head = acc_.unit->combine == Combine::group_scaled ? a.scale_head * b.scale_head
                                                           : a.element_head * b.element_head;
    }
    m.flushed = acc_.unit->combine == Combine::pairwise_flush ? abs_sum : 0;
  }
  return dot_bound(acc_, m, promote_);
}

DotResult Dot::operator()(const OperandRow& a, const OperandRow& b) const {
  const std::int64_t n = static_cast<std::int64_t>(a.center.size());
  const double own = (static_cast<double>(n) + 4) * kUnit64;
  const DotSums center = dot_sums(a.center.data(), b.center.data(), n);
  const double scale = a.scale * b.scale;  // exact: two f32
  DotResult r;
  r.exact = center.sum * scale;
  r.certificate = up(own * center.abs_sum * std::fabs(scale));
  if (!a.same || !b.same) {
    const DotSums exact = dot_sums(a.exact.data(), b.exact.data(), n);
    r.exact = exact.sum;
    r.certificate = up(own * exact.abs_sum);
  }
  double reach = center.abs_sum;
  if (!a.reach.empty() || !b.reach.empty()) {
    std::vector<double> magnitude;
    const auto reach_of = [&](const OperandRow& row) -> const std::vector<double>& {
      if (!row.reach.empty()) return row.reach;
      magnitude.resize(row.center.size());
      std::transform(row.center.begin(), row.center.end(), magnitude.begin(),
                     [](double x) { return std::fabs(x); });
      return magnitude;
    };
    reach = dot_sums(reach_of(a).data(), reach_of(b).data(), n).sum;
  }
  reach *= 1 + 2 * own;
  const double undecided =
      std::max(0.0, reach - center.abs_sum * (1 - 2 * own)) * (a.reach.empty() && b.reach.empty() ? 0 : 1);
  r.accumulation = accumulation_error(a, b, reach);
  const double error = up(undecided + r.accumulation + own * center.abs_sum);
  Enclosure z = product({center.sum, error}, {scale, std::fabs(scale) * (a.scale_error + b.scale_error) * 2});
  const bool integer = acc_.kind == Accumulator::Kind::integer ||
                       (acc_.unit != nullptr && acc_.unit->combine == Combine::wrap);
  if (scale != 1 || integer) {
    static const Machine f32 = machine("f32", false);
    z = rounded(z, f32, epilogue_roundings_);
    if (flush_) z.error += 3 * 0x1p-126;
  }
  r.kernel = z;
  return r;
}

}  // namespace assay
