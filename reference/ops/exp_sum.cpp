#include "reference/ops/exp_sum.hpp"

#include <algorithm>
#include <cmath>

#include "reference/real/exp.hpp"

namespace assay {

namespace {

// w e^error (1 + own), w = exp(-distance): a factor that overflows beside a weight that has vanished is no product.
double grown(double w, double distance, double error, double own) {
  if (error < 1) return w * (1 + (std::expm1(up(error)) + own));
  return std::exp(up(error) - distance) * (1 + 8 * own);
}

}  // namespace

ExpSum exp_sum(std::span<const Enclosure> logits, const Contract& contract, const Machine& acc) {
  ExpSum r;
  r.max = -kInfinity;
  double magnitude = 0;
  for (const Enclosure& s : logits) {
    r.max = std::max(r.max, s.value);
    r.max_error = std::max(r.max_error, s.error);
    if (s.value != -kInfinity) magnitude = std::max(magnitude, std::fabs(s.value));
  }
  const double n = static_cast<double>(logits.size());
  const double u = acc.unit;
  const double relative_exp = 2 * contract.number("exp_ulp") * u;
  const double rescales = contract.number("rescales");
  const bool base2 = contract.text("exp") == "base2";
  const double b = base2 ? 3 : 1;
  const double largest_shift = rescales > 0 ? magnitude : std::fabs(r.max);  // of what may be subtracted
  if (base2) r.max_error += u * largest_shift;
  constexpr double kLog2E = 1.4426950408889634;
  const double shift = (largest_shift + r.max_error) * kLog2E * (1 + 4 * u);
  r.defined = r.max_error < kInfinity && (!base2 || shift < acc.max_finite);
  if (base2) r.swell = std::exp(2 * r.max_error + rescales * u * (magnitude + r.max_error));
  r.bounded = r.defined && relative_exp < 0.5 && 2 * n * (1 + n * u) * r.swell < acc.max_finite;
  const double log_factor = std::log1p(relative_exp);
  const double log_rescale = rescales * (log_factor + u);
  // 4e-308 is where the reference's own exp stops; it is far below tiny of every format but f64.
  r.flush = up((acc.tiny + kExpFlushError) * std::exp(r.max_error));
  r.weight.resize(logits.size());
  r.most.resize(logits.size());
  double errors = 0, partials = 0, sum = 0;
  for (std::size_t j = 0; j < logits.size(); ++j) {
    const Enclosure& s = logits[j];
    if (s.value == -kInfinity) continue;  // weight exactly 0 in every arithmetic
    const double hi = s.value - r.max;
    const double back = hi + r.max;  // TwoSum of s and -max, so that the low part is exact
    const double lo = (s.value - back) - (r.max - (back - hi));
    const double distance = std::fabs(hi);
    const double w = certified_exp(hi, std::clamp(lo, -kExpLowMax, kExpLowMax));
    const double direct = log_factor + s.error + b * u * (distance + s.error + r.max_error);
    const double own = 0x1p-52 + std::fabs(lo) * kUnit64;
    r.weight[j] = w;
    r.most[j] = up(grown(w, distance, direct, own));
    const double drift =
        base2 ? rescales * u * (std::max(std::fabs(s.value), std::fabs(r.max)) + r.max_error) : 0;
    const double in_sum =
        rescales > 0 ? direct + log_rescale + b * u * (distance + 2 * r.max_error) + drift : direct;
    errors += in_sum < 1 ? w * (std::expm1(up(in_sum)) + own) : grown(w, distance, in_sum, own);
    sum += w;
    if (j > 0) partials += sum;
  }
  const double any = (n - 1) * u;
  const Order order = order_of(contract.text("order"));
  const double order_error = order.is_shallow()           ? std::min(any, gamma_n(order.height(n), u))
                             : order == Order::sequential ? std::min(any, u * partials * (1 + any) / sum)
                                                          : any;
  const double flushes = n * ((1 + rescales) * r.flush + acc.tiny_add);
  r.sum = sum;
  r.sum_error = up((1 + order_error) * (errors + flushes) / sum + order_error + (2 * n + 8) * kUnit64);
  if (!r.defined || !(sum * (1 + r.sum_error) * r.swell < acc.max_finite)) r.sum_error = kInfinity;
  return r;
}

}  // namespace assay
