// Step 1 of bounds.hpp: one score and its error.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"

namespace assay::attention_bounds {
namespace {

struct Operands {  // of one dot product, looked at once
  std::vector<double> product;
  std::vector<int> head, lattice;
  std::vector<std::uint8_t> subnormal;
};

int head_exponent(double x, int emin) { return std::max(exponent_of(x), emin); }

Operands look_at(std::span<const float> q, const float* k, int q_emin, int k_emin) {
  Operands o{std::vector<double>(q.size()), std::vector<int>(q.size()), std::vector<int>(q.size()),
             std::vector<std::uint8_t>(q.size())};
  for (std::size_t i = 0; i < q.size(); ++i) {
    const double a = q[i], b = k[i];
    o.product[i] = a * b;
    const bool zero = a == 0 || b == 0;
    o.head[i] = zero ? -kNever : head_exponent(a, q_emin) + head_exponent(b, k_emin);
    o.lattice[i] = zero ? kNever : lattice_of(a) + lattice_of(b);
    o.subnormal[i] = !zero && (exponent_of(a) < q_emin || exponent_of(b) < k_emin);
  }
  return o;
}

// The error of a sum of partial sums, which is an f32.
double in_f32(double sum, double error) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return claims(Rule::logit_overflow, std::fabs(sum) + error < kLargest)
             ? error
             : std::numeric_limits<double>::infinity();
}

}  // namespace

Score score(const StepModel& step, std::span<const float> q, const float* k, int q_emin, int k_emin,
            std::int64_t chunk, Order order) {
  const Operands o = look_at(q, k, q_emin, k_emin);
  const auto d = std::ssize(o.product);
  double sum = 0, low = 0, products = 0, flushed = 0;
  int lattice = kNever, top = -kNever;
  for (std::int64_t i = 0; i < d; ++i) {
    const double t = sum + o.product[i], back = t - sum;  // TwoSum
    low += (sum - (t - back)) + (o.product[i] - back);
    sum = t;
    products += std::fabs(o.product[i]);
    if (o.subnormal[i]) flushed += std::fabs(o.product[i]);
    lattice = std::min(lattice, o.lattice[i]);
    top = std::max(top, o.head[i]);
  }
  const double s = sum + low;
  const bool exact = products == 0 || exponent_of(products) - lattice < 52;
  const double own = exact ? 0 : 0x1p-52 * std::fabs(s) + static_cast<double>(d * d) * 0x1p-104 * products;
  if (products == 0) return {0, 0};
  const std::int64_t chain = chunk <= 0 || chunk >= d ? d : chunk;
  const std::int64_t chains = (d + chain - 1) / chain;
  if (order != Order::sequential) {
    const double head = std::ldexp(1.0, std::max(top, -1000));
    if (exact && step.never_rounds(products, head, lattice) &&
        (flushed == 0 || step.kind != StepModel::Kind::pairwise))
      return {s, 0};
    double positive = 0;  // no partial sum exceeds the larger of the positive and the negative products
    for (const double p : o.product) positive += std::max(p, 0.0);
    const double partial = std::max(positive, products - positive) * (1 + 0x1p-40);
    const std::int64_t blocks = chains * step.steps(chain);
    double e =
        step.worst({partial, products, head, flushed, blocks, d, order.height(static_cast<double>(chain))});
    if (chains > 1) e = in_f32(partial, e + static_cast<double>(chains) * kU * (1 + 0x1p-10) * (partial + e));
    return {s, e * (1 + 0x1p-30) + own};
  }
  double total = 0, error = 0;
  for (std::int64_t first = 0; first < d; first += chain) {
    double partial = 0, e = 0;
    for (std::int64_t b = first; b < std::min(d, first + chain); b += step.group) {
      const std::int64_t end = std::min({d, first + chain, b + step.group});
      StepModel::Step block;
      int head = -kNever;
      double next = partial;
      for (std::int64_t i = b; i < end; ++i) {
        head = std::max(head, o.head[i]);
        next += o.product[i];
        block.products += std::fabs(o.product[i]);
        if (o.subnormal[i]) block.flushed += std::fabs(o.product[i]);
      }
      if (block.products == 0) continue;
      block.head = std::ldexp(1.0, std::max(head, -1000));
      block.before = std::fabs(partial) + e;
      block.after = std::fabs(next) + e;
      const int quantum = step.quantum_exponent(block);
      for (std::int64_t i = b; i < end; ++i) {
        block.inexact += step.kind == StepModel::Kind::scalar
                             ? !representable(o.product[i], step.precision, step.emin)
                             : o.lattice[i] < quantum;
      }
      block.c_inexact = e > 0 || lattice_of(partial) < quantum;
      block.after_fits = e == 0 && exact && representable(next, step.precision, step.emin);
      e += step.error(block);
      partial = next;
    }
    const bool fits = error == 0 && e == 0 && exact && representable(total + partial, 24);
    error += e;
    total += partial;
    if (first > 0 && !fits) error += kU * (std::fabs(total) + error);
    error = in_f32(total, error);
  }
  // `partial` and `total` are rounded f64 sums: a few 2^-53 of the products, far below every u here.
  return {s, error == 0
                 ? own
                 : error * (1 + 0x1p-30) + own + static_cast<double>(d) * 0x1p-52 * products * 0x1p-10};
}

}  // namespace assay::attention_bounds
