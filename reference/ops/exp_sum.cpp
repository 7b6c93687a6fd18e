#include "reference/ops/exp_sum.hpp"

#include <algorithm>
#include <cmath>

#include "reference/real/exp.hpp"

namespace assay {

namespace {

// w e^error (1 + own), w = exp(-distance): a factor that overflows beside a weight that has vanished is no
// product.
double grown(double w, double distance, double error, double own) {
  if (error < 1) return w * (1 + (std::expm1(up(error)) + own));
  return std::exp(up(error) - distance) * (1 + 8 * own);
}

// What a kernel's exp does, and the bounds of its errors: the header's symbols.
struct Exp {
  double b, E, a, rescales, u, normal;
  Exp(const Contract& contract, const Machine& acc)
      : b(contract.text("exp") == "base2" ? 3 : 1),
        E(rule(Rule::exp_ulp, 2 * contract.number("exp_ulp") * acc.unit)),
        a(rule(Rule::exp_argument_flush, (b > 1 ? 2 : 1) * acc.tiny)),
        rescales(contract.number("rescales")),
        u(acc.unit),
        normal(acc.normal) {}
  double direct(double distance, double logit, double max_error) const {
    const bool vanishes = !((distance - logit - max_error) * (1 - b * u) >= normal);
    const double argument = distance + logit + max_error;
    return std::log1p(E) + rule(Rule::exp_logit, logit) + (vanishes ? std::min(a, b * argument) : 0) +
           rule(Rule::exp_argument, b * u * argument);
  }
  double rescaled(double distance, double max_error, double drift) const {
    if (rescales == 0) return 0;
    return rule(Rule::exp_rescale,
                rescales * (std::log1p(E) + u + a) + b * u * (distance + 2 * max_error) + drift);
  }
};

}  // namespace

ExpSum exp_sum(std::span<const Enclosure> logits, const Contract& contract, const Machine& acc, double places,
               bool sink) {
  ExpSum r;
  r.max = -kInfinity;
  double magnitude = 0, of_keys = -kInfinity;  // the maximum may be taken over keys alone, below a sink
  for (const Enclosure& s : logits) {
    if (!sink || &s != logits.data()) of_keys = std::max(of_keys, s.value);
    r.max = std::max(r.max, s.value);
    r.max_error = std::max(r.max_error, s.error);
    if (s.value != -kInfinity) magnitude = std::max(magnitude, std::fabs(s.value));
  }
  const double n = static_cast<double>(logits.size());
  const double u = acc.unit;
  // The maximum, and of an online kernel any before it, is held in acc.
  double held = 0;
  for (const Enclosure& s : logits)
    if (s.error == 0 && s.value != -kInfinity &&
        (s.value == r.max || s.value == of_keys || contract.number("rescales") > 0))
      held = std::max(held, held_error(s.value, acc));
  r.max_error += held;
  const Exp kernel(contract, acc);
  const double rescales = kernel.rescales;
  const bool base2 = contract.text("exp") == "base2";
  const double maxima =
      std::isfinite(of_keys) ? std::max(std::fabs(r.max), std::fabs(of_keys)) : std::fabs(r.max);
  const double largest_shift = rescales > 0 ? magnitude : maxima;  // of what may be subtracted
  if (base2) r.max_error += rule(Rule::exp_base2_shift, u * largest_shift + acc.tiny);
  constexpr double kLog2E = 1.4426950408889634;
  const double shift = (largest_shift + r.max_error) * kLog2E * (1 + 4 * u);
  r.defined = r.max_error < kInfinity && claims(Rule::exp_bounded, !base2 || shift < acc.max_finite);
  r.swell = base2 ? std::exp(2 * r.max_error + rescales * u * (magnitude + r.max_error)) : std::exp(2 * held);
  // What the factors of an online kernel, exp(0) among them, make of a sum at most, and at least.
  const double grown_by = std::exp(rescales * (std::log1p(kernel.E) + u));
  const bool stays =
      rescales == 0 ||
      std::exp(rescales * (std::log1p(-std::min(kernel.E, 0.5)) - 2 * u)) / (2 * r.swell) > acc.normal;
  r.bounded = r.defined && kernel.E < 0.5 && stays &&
              claims(Rule::exp_bounded, 2 * n * (1 + n * u) * r.swell * grown_by < acc.max_finite);
  // 4e-308 is where the reference's own exp stops; it is far below tiny of every format but f64.
  const double own_flush = kExpFlushError * std::exp(r.max_error);
  const double steps = underflow_of(acc, contract.number("exp_ulp")) * std::exp(r.max_error);
  const double of_exp = rule(Rule::exp_underflow, steps);
  const double of_rescale = rule(Rule::exp_rescale_underflow, rescales * acc.tiny * std::exp(r.max_error));
  const double grows = rescales > 0 ? (1 + kernel.E) * r.swell + rescales * acc.normal : 1;
  r.weight.resize(logits.size());
  r.most.resize(logits.size());
  r.flush.resize(logits.size());
  double errors = 0, partials = 0, sum = 0, flushes = 0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    const Enclosure& s = logits[j];
    if (s.value == -kInfinity) continue;  // weight exactly 0 in every arithmetic
    const double hi = s.value - r.max;
    const double back = hi + r.max;  // TwoSum of s and -max, so that the low part is exact
    const double lo = (s.value - back) - (r.max - (back - hi));
    const double distance = std::fabs(hi);
    const double w = certified_exp(hi, std::clamp(lo, -kExpLowMax, kExpLowMax));
    const double own = 0x1p-52 + std::fabs(lo) * kUnit64;
    const double drift =
        base2 ? rescales * u * (std::max(std::fabs(s.value), std::fabs(r.max)) + r.max_error) : 0;
    const double in_sum =
        kernel.direct(distance, s.error, r.max_error) + kernel.rescaled(distance, r.max_error, drift);
    r.weight[j] = w;
    r.most[j] = up(grown(w, distance, in_sum, own));
    errors += in_sum < 1 ? w * (std::expm1(up(in_sum)) + own) : grown(w, distance, in_sum, own);
    // The least a kernel may hold, before it underflows: of v_j, of a factor, of the product.
    if (!(w * std::exp(-2 * in_sum - 2 * r.max_error) * (1 - 0x1p-40) >= acc.normal)) {
      r.flush[j] = up(of_exp * grows + of_rescale + own_flush);
      flushes += r.flush[j];
    }
    sum += w;
    if (j > 0) partials += sum;
  }
  const double any = (n - 1) * u;
  const Order order = order_of(contract.text("order"));
  const double height = sink ? order.height_with_start(places) : order.height(places);
  const double order_error =
      rule(Rule::exp_order, order.is_shallow()           ? std::min(any, gamma_n(height, u))
                            : order == Order::sequential ? std::min(any, u * partials * (1 + any) / sum)
                                                         : any);
  const double carried = order == Order::sequential ? any : order_error;
  r.sum = sum;
  r.sum_error = up((1 + carried) * (errors + flushes) / sum + order_error + (2 * n + 8) * kUnit64);
  if (!r.defined || !claims(Rule::exp_bounded, sum * (1 + r.sum_error) * r.swell < acc.max_finite))
    r.sum_error = kInfinity;
  return r;
}

}  // namespace assay
