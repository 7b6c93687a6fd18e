#include "reference/ops/dot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"

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

namespace {

// Of a number of the format, the leading one included.
int significand_bits(std::string_view format) {
  const ScalarFormat& f = scalar_format(format);
  return f.kind == ScalarKind::integer ? f.bits : f.fraction_bits + 1;
}

}  // namespace

Dot::Dot(const Contract& contract, std::string_view a_element, std::string_view b_element, bool flush,
         int product_bits)
    : acc_(accumulator(contract.text("acc"))),
      order_(order_of(contract.text("order"))),
      flush_(flush),
      exact_products_(
          (product_bits > 0 ? product_bits : significand_bits(a_element) + significand_bits(b_element)) <=
          acc_.precision.p),
      promote_(static_cast<std::int64_t>(contract.number("promote"))),
      blocking_{contract.integer("block"), static_cast<std::int64_t>(contract.number("split"))},
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
  if (acc_.kind == Accumulator::Kind::unit && order_ == Order::sequential) blocking_ = {acc_.unit->group, 1};
}

bool Dot::is_dealt() const { return acc_.kind == Accumulator::Kind::unit && order_ != Order::sequential; }

void refuse_idle_blocking(const Contract& contract, std::initializer_list<const Dot*> products) {
  const bool said = contract.text("block") != "1" || contract.text("split") != "0";
  if (!said || std::ranges::any_of(products, [](const Dot* each) { return each->is_dealt(); })) return;
  throw InputError(
      InputErrorKind::bad_contract,
      fmt::format("block={} split={} say how a matrix unit is fed where the order of its blocks is not told: "
                  "allowed with acc={} order={} is block=1 split=0",
                  contract.text("block"), contract.text("split"), contract.text("acc"),
                  contract.text("order")));
}

const MatrixUnit* Dot::replayable() const {
  const bool known = acc_.kind == Accumulator::Kind::unit && acc_.unit->combine != Combine::wrap &&
                     acc_.unit->standing != Standing::assumed;
  return known && order_ == Order::sequential ? acc_.unit : nullptr;
}

// Operands below the smallest normal of their type, each with its partner; and of every product and every sum
// (of a unit: block, promotion, addition of parts) as much as the smallest normal of its own. What cannot be
// that small is not flushed: no operand is below min_abs, no product below the product of both, and no sum
// below lsb, of which all of them are multiples.
double Dot::flushed(const OperandRow& a, const OperandRow& b) const {
  if (!flush_) return 0;
  const double n = static_cast<double>(a.center.size());
  const bool unit = acc_.kind == Accumulator::Kind::unit;
  const bool half = !unit && (a_element_ == "f16" || b_element_ == "f16" || acc_.precision == kPrecisionF16);
  // A unit takes numbers of f16 as they are; a conversion in front of it may not.
  const auto least_of = [&](const OperandRow& row) { return half || row.flushes_f16 ? 0x1p-14 : 0x1p-126; };
  const double normal = unit ? 0x1p-126 : power_of_two(acc_.precision.emin);
  const double min_a = a.reach.empty() ? a.grid.min_abs : 0, min_b = b.reach.empty() ? b.grid.min_abs : 0;
  double lost = 0;
  // One that was rounded to the smallest normal may have been below it, and been flushed for that.
  const auto lose = [&](const OperandRow& row, double min, double partner) {
    const double least = least_of(row);
    if (min > least || (min == least && row.same)) return;
    double all = 0;  // of the operands that may be that small
    for (std::size_t k = 0; k < row.center.size(); ++k) {
      const double size = std::fabs(row.center[k]), radius = row.reach.empty() ? 0 : row.reach[k] - size;
      if (!(size - radius > least)) all += std::min(size + radius, least);
    }
    lost += all * (1 + 2 * n * kUnit64) * partner;
  };
  lose(a, min_a, b.max_abs);
  lose(b, min_b, a.max_abs);
  if (!unit && !(min_a * min_b >= normal)) lost += n * normal;
  const bool decided = a.reach.empty() && b.reach.empty();
  // Blocks, and as many parts or promotions at most.
  const double sums = unit ? 2 * most_blocks(n, acc_.unit->group, blocking_) : n;
  const auto may_vanish = [&](double least_normal) {
    return !(decided && a.grid.lsb * b.grid.lsb >= least_normal);
  };
  if (may_vanish(normal)) lost += sums * normal;
  // Parts are added outside of the unit, in the type of its register.
  const double outside = power_of_two(acc_.precision.emin);
  if (unit && blocking_.split != 1 && outside > normal && may_vanish(outside)) lost += n * outside;
  return rule(Rule::sum_flush, lost);
}

double Dot::sequential_error(const OperandRow& a, const OperandRow& b, double abs_sum, double undecided,
                             double flushed) const {
  const std::size_t n = a.center.size();
  const double u = rule(Rule::sum_rounding, unit_roundoff(acc_.precision));
  const double eta = rule(Rule::product_underflow, underflow_unit(acc_.precision));
  const double product = exact_products_ ? 0 : rule(Rule::product_rounding, unit_roundoff(acc_.precision));
  double partial = 0, absolute = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const double p = a.center[k] * b.center[k];
    partial += p;
    absolute += std::fabs(partial);
  }
  // Unfolded, E_n <= sum_k (e_p (1 + u) + u (|s_k| + R)) (1 + u)^(n - k), and (1 + u)^n <= e^(n u). The s_k
  // of this loop are themselves off by at most n u64 sum|a b|.
  const double count = static_cast<double>(n);
  const double each = product * abs_sum * (1 + u) + (count * eta + flushed) * (2 + u) +
                      u * (absolute + count * (undecided + count * kUnit64 * abs_sum));
  const double growth = std::exp((count + 4) * u) * (1 + 0x1p-40);
  const double error = up(each * growth * (1 + count * kUnit64));
  // No partial sum is larger than sum|a b| and its error.
  return claims(Rule::sum_overflow, abs_sum * growth * (1 + u) + error < largest_finite(acc_.precision))
             ? error
             : kInfinity;
}

double Dot::accumulation_error(const OperandRow& a, const OperandRow& b, double abs_sum,
                               double undecided) const {
  const bool decided = a.reach.empty() && b.reach.empty();
  if (decided && abs_sum == 0) return 0;
  DotMagnitudes m{.n = static_cast<std::int64_t>(a.center.size()), .abs_sum = abs_sum};
  if (decided) m.lsb = a.grid.lsb * b.grid.lsb;
  m.flushed = flushed(a, b);
  if (acc_.kind == Accumulator::Kind::floating) {
    if (order_.is_shallow())
      return dot_bound_ordered(acc_.precision,
                               static_cast<std::int64_t>(order_.height(static_cast<double>(m.n))), m,
                               exact_products_ ? 0 : 1);
    const double any = dot_bound(acc_, m);
    return order_ == Order::sequential ? std::min(any, sequential_error(a, b, abs_sum, undecided, m.flushed))
                                       : any;
  }
  if (acc_.kind == Accumulator::Kind::unit && acc_.unit->combine != Combine::wrap) {
    m.head = product_head(a.max_abs, a_element_, b.max_abs, b_element_);
    if (a.scale_head > 0 && b.scale_head > 0) {  // path=blocks
      m.head = acc_.unit->combine == Combine::group_scaled ? a.scale_head * b.scale_head
                                                           : a.element_head * b.element_head;
    }
    // This unit takes subnormal operands, and f32 products below 2^-126, for 0 by itself.
    const auto is_normal = [&](const OperandRow& row, const std::string& element) {
      return decided && row.grid.min_abs >= smallest_normal(scalar_format(element));
    };
    if (acc_.unit->combine == Combine::pairwise_flush &&
        !(is_normal(a, a_element_) && is_normal(b, b_element_)))
      m.flushed += abs_sum;
  }
  return dot_bound(acc_, m, promote_, blocking_);
}

namespace {

// What the products of an epilogue may lose. A sum of magnitude `most` (0: of a sum that may be anything
// below it) and scales that multiply it are brought together in any order: each product of some of them, P,
// is off by min(eta, |P|) where it may be below the normal numbers, times the other factors, R; a stored
// scale that is flushed is 0. One that may overflow makes Inf, or NaN of a sum of 0: +Inf.
struct ScaleFactors {
  std::array<double, 5> f{};
  std::size_t count = 1;  // f[0]: the sum
  void add(double scale) {
    if (std::fabs(scale) != 1) f[count++] = std::fabs(scale);
  }
};

double scaling_loss(const ScaleFactors& factors, bool flush, double largest) {
  const double eta = flush ? 0x1p-126 : 0x1p-150, most = factors.f[0];
  const unsigned whole = (1U << factors.count) - 1;
  double lost = 0;
  for (unsigned set = 1; set <= whole; ++set) {
    double product = 1, rest = 1;
    for (std::size_t i = 0; i < factors.count; ++i) ((set >> i & 1U) != 0 ? product : rest) *= factors.f[i];
    // The result itself is the store's; a sum of 0 stays 0 beside what does not overflow.
    if (set != whole && !(product * (1 + 0x1p-20) < largest)) return kInfinity;
    if (most == 0) continue;
    const bool single = (set & (set - 1)) == 0, of_sum = (set & 1U) != 0;
    if (of_sum && !single)
      lost += 3 * eta * rest;
    else if (!of_sum && product < 0x1p-125 && (!single || flush))
      lost += (single ? 1 : 2) * std::min(eta, product) * rest;
  }
  return lost;
}

}  // namespace

Enclosure Dot::epilogue(Enclosure sum, const OperandRow& a, const OperandRow& b) const {
  const double scale =
      a.scale * b.scale;  // of two f32 exact, else within u64, which the scales' own errors include
  const double relative = a.scale_error + b.scale_error + a.scale_error * b.scale_error;
  Enclosure z = product(sum, {scale, up(std::fabs(scale) * relative)});
  const bool integer = acc_.kind == Accumulator::Kind::integer ||
                       (acc_.unit != nullptr && acc_.unit->combine == Combine::wrap);
  // A product by 1 rounds what is no f32.
  const bool wide = !integer && acc_.precision.p > kPrecisionF32.p && (a.has_scale || b.has_scale);
  const bool scaled =
      a.scale != 1 || b.scale != 1 || relative > 0 || has_two_scales(a) || has_two_scales(b) || wide;
  if (!scaled && !integer) return sum;
  static const Machine f32 = machine("f32", false);
  const double most = sum.magnitude();
  if (!scaled) return is_zero(sum) ? sum : rounded(z, f32, epilogue_roundings_);
  const double left = std::fabs(a.scale) * (1 + a.scale_error),
               right = std::fabs(b.scale) * (1 + b.scale_error);
  ScaleFactors factors;
  factors.f[0] = most;
  for (const OperandRow* row : {&a, &b}) {
    if (has_two_scales(*row))
      for (const double each : row->two_scales) factors.add(each);
    else
      factors.add(row == &a ? left : right);
  }
  double lost = scaling_loss(factors, flush_, f32.max_finite);
  // The reciprocals of both, or of their product: one that overflows makes 0 of the sum, one that underflows
  // Inf of a scale, and NaN of a sum of 0.
  if (a.scale_divides || b.scale_divides) {
    const double divisors = 1 / (std::fabs(scale) * (1 + 0x1p-20));
    for (const double divisor :
         {divisors, 1 / (a.scale_divides ? left : 1), 1 / (b.scale_divides ? right : 1)}) {
      if (!(divisor * (1 + 0x1p-19) < f32.max_finite)) lost += up(most * left * right);
      if (!(divisor > 0x1p-125)) lost = kInfinity;
    }
  }
  if (!(lost < kInfinity)) return {z.value, kInfinity};
  if (is_zero(sum)) return sum;
  z = rounded(z, f32, epilogue_roundings_);
  z.error = up(z.error + lost);
  return z;
}

DotResult Dot::operator()(const OperandRow& a, const OperandRow& b, const Enclosure* replayed) const {
  const std::int64_t n = static_cast<std::int64_t>(a.center.size());
  const DotSums center = dot_sums(a.center.data(), b.center.data(), n);
  const double scale = a.scale * b.scale;
  // Multiples of one unit below 2^53 of them: this sum is exact.
  const bool exact = center.abs_sum <= a.grid.lsb * b.grid.lsb * 0x1p53 && a.grid.lsb * b.grid.lsb > 0x1p-900;
  const double own = exact ? 0 : (static_cast<double>(n) + 4) * kUnit64;
  DotResult r;
  r.exact = center.sum * scale;
  r.certificate = up((own + 4 * kUnit64) * center.abs_sum * std::fabs(scale));
  if (!a.same || !b.same) {
    const DotSums real = dot_sums(a.exact.data(), b.exact.data(), n);
    r.exact = real.sum;
    r.certificate = up((static_cast<double>(n) + 4) * kUnit64 * real.abs_sum);
  }
  if (acc_.unit != nullptr && (a.has_negative_scale || b.has_negative_scale)) {
    r.kernel = {r.exact, kInfinity};
    return r;
  }
  if (replayed != nullptr) {
    r.kernel = epilogue(*replayed, a, b);
    return r;
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
    reach = dot_sums(reach_of(a).data(), reach_of(b).data(), n).sum *
            (1 + 2 * static_cast<double>(n + 4) * kUnit64);
  }
  reach *= 1 + 2 * own;
  // An unbounded operand (an admitted overflow) makes this NaN or Inf: nothing is claimed then.
  double undecided = 0;
  if (!a.reach.empty() || !b.reach.empty()) {
    undecided = reach - center.abs_sum * (1 - 2 * own);  // from above
    undecided = std::isnan(undecided) ? kInfinity : std::max(0.0, undecided);
  }
  double error = up(undecided + accumulation_error(a, b, reach, undecided) + own * center.abs_sum);
  if (std::isnan(error)) error = kInfinity;
  r.kernel = epilogue({center.sum, error}, a, b);
  return r;
}

}  // namespace assay
