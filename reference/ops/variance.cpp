#include "reference/ops/variance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/error.hpp"
#include "reference/ops/merged_moments.hpp"
#include "reference/ops/norm.hpp"

namespace assay {
namespace {

// sum x^2 / n, as a kernel forms it.
Enclosure mean_square(std::span<const Enclosure> x, Order order, double div_ulp, const Machine& acc) {
  std::vector<Enclosure> squares;
  squares.reserve(x.size());
  for (const Enclosure& each : x) squares.push_back(squared(each, acc));
  return mean_of(summed(squares, order, acc), static_cast<double>(x.size()), div_ulp, acc);
}

// The exact variance with the reference's error only: f64 two-pass by the same calculus.
Enclosure exact_variance(std::span<const double> x, Enclosure mean64) {
  const Machine f64 = machine("f64", false);
  std::vector<Enclosure> squares;
  squares.reserve(x.size());
  for (const double each : x) squares.push_back(squared(rounded_sum({each - mean64.value, 0}, f64), f64));
  Enclosure v = mean_of(summed(squares, Order::any, f64), static_cast<double>(x.size()), 0.5, f64);
  v.error = up(v.error + mean64.error * mean64.error);
  return v;
}

// One accumulator in memory order.
Enclosure sequential_welford(std::span<const double> x, Enclosure exact, Enclosure exact_mean,
                             const Machine& acc, double div_ulp, Enclosure& mean) {
  const double u = rule(Rule::welford_rounding, acc.unit);
  const double relative = rule(Rule::welford_division, gamma_n(2 * div_ulp + 1, acc.unit));
  const auto tiny_of = [&](Enclosure z, double tiny) {
    return may_underflow(z, acc, acc.unit) ? rule(Rule::welford_underflow, tiny) : 0;
  };
  double m = 0, s = 0, em = 0, es = 0;  // the recurrence in f64, and the errors of the kernel's M and S
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Enclosure k = count(static_cast<double>(i + 1), acc);
    const Enclosure in = read(x[i], acc);
    const double before = x[i] - m;
    if (i == 0 && div_ulp <= 0.5 && is_representable(x[i], acc) && !has_finer_bits(x[i], acc)) {
      m = before, em = in.error;  // x - 0, x / 1 and 0 + x are exact
      continue;
    }
    const double of_sum = has_finer_bits(x[i], acc) ? acc.tiny : acc.tiny_add;
    const double flush = tiny_of({before, em + in.error}, of_sum);
    const double e_before = up((em + in.error) * (1 + u) + u * std::fabs(before) + flush);
    const double step = before / k.value, most_step = std::fabs(step) + e_before / k.value;
    m += step;
    // M_k = (1 - 1/k) M_{k-1} + x_k / k exactly: em is damped; rounding of the difference (relative u on
    // before / k), of k, of the quotient, and of the addition.
    em = up(em * (1 - 1 / k.value) + in.error / k.value +
            (u * (std::fabs(before) + em + in.error) + flush) / k.value +
            (relative + 2 * k.error / k.value) * most_step +
            division_underflow({step, e_before / k.value}, std::fabs(before) + e_before, k, acc, div_ulp));
    em = up(em + u * (std::fabs(m) + em) + tiny_of({m, em}, acc.tiny_add));
    const double after = x[i] - m;
    const double e_after =
        up((em + in.error) * (1 + u) + u * std::fabs(after) + tiny_of({after, em + in.error}, of_sum));
    const double p = before * after;
    const double e_p = up(std::fabs(before) * e_after + std::fabs(after) * e_before + e_before * e_after);
    s += p;
    const double of_product = tiny_of({p, e_p}, acc.tiny);
    es = up(es + e_p + u * (std::fabs(p) + e_p) + of_product);
    es = up(es + u * (std::fabs(s) + es) + tiny_of({s, es}, acc.tiny_add));
  }
  // `before`, m and s above are those of the f64 recurrence, off by some n u64 of the exact ones; they only
  // weight u, so that a factor covers it for every n up to 2^30.
  em *= 1 + 0x1p-20;
  es *= 1 + 0x1p-20;
  const double n = static_cast<double>(x.size());
  mean = {exact_mean.value, up(em + exact_mean.error + std::fabs(m - exact_mean.value))};
  const Enclosure sum_of_squares{exact.value * n, up(es + exact.error * n + std::fabs(s - exact.value * n) +
                                                     2 * kUnit64 * exact.value * n)};
  // A difference that overflows has a square that does; a mean may overflow of x that are wider than acc, and
  // all alike.
  double most = 0;
  for (const double each : x) most = std::max(most, std::fabs(each));
  const bool fits = std::fabs(sum_of_squares.value) + sum_of_squares.error < acc.max_finite &&
                    most + em < acc.max_finite && n < acc.max_finite;
  Enclosure v = mean_of(sum_of_squares, n, div_ulp, acc);
  if (!claims(Rule::welford_overflow, fits)) v.error = kInfinity;
  return v;
}

// Parts of the row and their merges. Nothing is claimed where a product of the largest difference of means
// with n_A n_B, in whatever association, or n_A n_B itself, or the product of a mean with n, leaves the
// range.
Enclosure merged_welford(std::span<const double> x, Enclosure exact, Enclosure exact_mean, Order order,
                         const Machine& acc, double div_ulp, Enclosure& mean) {
  const double n = static_cast<double>(x.size());
  const auto [least, largest] = std::minmax_element(x.begin(), x.end());
  const double squares = up((exact.value + exact.error) * n);
  const MergedErrors e = merged_errors(x, squares, order, div_ulp, acc);
  const double most = std::max(std::fabs(*least), std::fabs(*largest)) + e.mean;
  const double difference = *largest - *least + 2 * e.mean;
  mean = {exact_mean.value, up(e.mean + exact_mean.error)};
  Enclosure v = mean_of({exact.value * n, up(e.squares + exact.error * n + 2 * kUnit64 * exact.value * n)}, n,
                        div_ulp, acc);
  const double counts = n * n / 4;
  const bool fits = std::max(2 * n * most, n) < acc.max_finite &&
                    std::max(2 * std::max(1.0, counts) * difference * difference, counts) < acc.max_finite &&
                    2 * (squares + e.squares) < acc.max_finite;
  if (!claims(Rule::merge_overflow, fits)) v.error = kInfinity;
  return v;
}

}  // namespace

VarianceKind variance_of(std::string_view word) {
  if (word == "two_pass") return VarianceKind::two_pass;
  if (word == "one_pass") return VarianceKind::one_pass;
  if (word == "welford") return VarianceKind::welford;
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("variance={}: allowed is two_pass|one_pass|welford", word));
}

Moments moments(std::span<const double> x, VarianceKind kind, Order order, double div_ulp,
                const Machine& acc) {
  const double n = static_cast<double>(x.size());
  std::vector<Enclosure> in;
  in.reserve(x.size());
  for (const double each : x) in.push_back(read(each, acc));
  const Machine f64 = machine("f64", false);
  std::vector<Enclosure> plain;
  plain.reserve(x.size());
  for (const double each : x) plain.push_back({each, 0});
  const Enclosure mean64 = rounded(quotient(summed(plain, Order::sequential, f64), {n, 0}), f64);
  const Enclosure exact = exact_variance(x, mean64);

  Moments result;
  if (kind == VarianceKind::welford) {
    result.variance = order == Order::sequential
                          ? sequential_welford(x, exact, mean64, acc, div_ulp, result.mean)
                          : merged_welford(x, exact, mean64, order, acc, div_ulp, result.mean);
    return result;
  }
  result.mean = mean_of(summed(in, order, acc), n, div_ulp, acc);
  result.mean.error = up(result.mean.error + std::fabs(result.mean.value - mean64.value));
  result.mean.value = mean64.value;
  const double dmu = result.mean.error;
  if (kind == VarianceKind::one_pass) {
    const Enclosure square = mean_square(in, order, div_ulp, acc);
    const Enclosure mean_squared = squared(result.mean, acc);
    const Enclosure difference = rounded_sum(sum(square, negated(mean_squared)), acc);
    result.variance = {exact.value,
                       up(difference.error + exact.error + std::fabs(difference.value - exact.value))};
    return result;
  }
  // two_pass: relative factors of the difference (twice, it is squared), the square, the sum and the
  // division.
  const double additions = order.height(n);
  const Enclosure divisor = count(n, acc);
  const double divisions = 2 * div_ulp + 1 + (divisor.error > 0 ? 1 : 0);
  const double g = rule(Rule::square_rounding, gamma_n(additions + 3 + divisions, acc.unit));
  // Flushed inputs: sum of |e_i|^2 and, by Cauchy, 2 sigma sqrt(that / n).
  double inputs = 0, square_root_inputs = 0;
  for (const Enclosure& each : in) inputs += each.error * each.error;
  square_root_inputs = 2 * std::sqrt(exact.magnitude() * inputs / n);
  const double shift = rule(Rule::mean_shift, dmu * dmu);
  const double shifted =
      exact.magnitude() + shift + inputs / n + square_root_inputs + 2 * dmu * std::sqrt(inputs / n);
  // A difference d below the smallest normal may be flushed, or, of an x that is wider than acc, off by half
  // a step: either changes its square by at most 2 normal tiny. A square that may underflow
  // loses tiny: under ftz=yes all of it, at once or in a sum of such squares, but once.
  double lost = 0;
  for (const Enclosure& each : in) {
    const Enclosure d = {each.value - mean64.value, each.error + dmu + kUnit64 * std::fabs(each.value)};
    if (may_underflow(d, acc, acc.unit)) lost += 2 * acc.tiny * acc.normal;
    if (may_underflow(squared(d, acc), acc, 2 * acc.unit)) lost += acc.tiny;
  }
  const double most = shifted * n * (1 + g);
  const double underflow = rule(Rule::square_underflow, lost / n * (1 + g));
  const Enclosure before_division = {exact.value, (shifted - exact.value) + g * shifted + underflow};
  const double division = division_underflow(before_division, most + lost, divisor, acc, div_ulp);
  const double error = up(exact.error + (shifted - exact.magnitude()) + g * shifted + underflow + division);
  const bool fits = most < acc.max_finite && n < acc.max_finite;
  result.variance = {exact.value, claims(Rule::sum_overflow, fits) ? error : kInfinity};
  return result;
}

MomentsF32 moments_f32(std::span<const float> x, VarianceKind kind) {
  const float n = static_cast<float>(x.size());
  if (kind == VarianceKind::welford) {
    float mean = 0, squares = 0, k = 0;
    for (const float each : x) {
      k += 1;
      const float before = each - mean;
      mean += before / k;
      squares += before * (each - mean);
    }
    return {mean, squares / n};
  }
  float total = 0, squares = 0;
  for (const float each : x) total += each;
  const float mean = total / n;
  if (kind == VarianceKind::one_pass) {
    for (const float each : x) squares += each * each;
    return {mean, squares / n - mean * mean};
  }
  for (const float each : x) squares += (each - mean) * (each - mean);
  return {mean, squares / n};
}

}  // namespace assay
