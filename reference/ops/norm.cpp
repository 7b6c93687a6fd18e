#include "reference/ops/norm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/error.hpp"

namespace assay {
namespace {

// nullptr where numbers of `from` are numbers of the format that `word` names, so that nothing is rounded.
const ScalarFormat* rounding(std::string_view from, std::string_view word) {
  const bool kept = word == "acc" || word == from || (word == "f32" && from != "f64");
  return kept ? nullptr : &scalar_format(word);
}

}  // namespace

Affine::Affine(const Contract& contract, std::string_view output)
    : acc_(machine(contract.text("acc"), contract.text("ftz") == "yes")),
      store_(store_of(contract, output)),
      mid_(rounding(contract.text("acc"), contract.text("mid"))),
      gamma_(rounding("f32", contract.text("gamma"))) {
  // An f32 beside f64 is rounded to nothing, and yet may be flushed as it is read.
  if (store_.flush && contract.text("acc") == "f64" && contract.text("gamma") == "f32")
    gamma_ = &scalar_format("f32");
  const std::string_view product = contract.text("product");
  product_ = product == "any"           ? Product::any
             : product == "x_inv_gamma" ? Product::x_inv_gamma
             : product == "x_gamma_inv" ? Product::x_gamma_inv
                                        : Product::gamma_inv_x;
  if (mid_ == nullptr) return;
  if (product_ != Product::any && product_ != Product::x_inv_gamma)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("mid={} is a rounding between x inv and gamma; product={}: allowed is "
                                 "x_inv_gamma",
                                 contract.text("mid"), product));
  product_ = Product::x_inv_gamma;
}

Enclosure Affine::weight(double x) const {
  if (gamma_ == nullptr) return read(x, acc_);
  const Enclosure in = read(x, acc_);
  return decided(in, *gamma_, store_.flush);
}

Enclosure Affine::normalised(Enclosure x, Enclosure inverse) const {
  const Enclosure z = rounded(product(x, inverse), acc_);
  return mid_ == nullptr ? z : decided(z, *mid_, store_.flush);
}

Enclosure Affine::scaled(Enclosure x, Enclosure inverse, Enclosure gamma) const {
  const auto in_order = [&](Product order) {
    switch (order) {
      case Product::x_gamma_inv:
        return rounded(product(rounded(product(x, gamma), acc_), inverse), acc_);
      case Product::gamma_inv_x:
        return rounded(product(rounded(product(gamma, inverse), acc_), x), acc_);
      default:
        return rounded(product(normalised(x, inverse), gamma), acc_);
    }
  };
  if (product_ != Product::any) return in_order(product_);
  Enclosure hull = in_order(Product::x_inv_gamma);
  for (const Product order : {Product::x_gamma_inv, Product::gamma_inv_x}) {
    const Enclosure z = in_order(order);
    hull.error = std::max({hull.error, z.high() - hull.value, hull.value - z.low()});
    if (!(z.error < kInfinity)) hull.error = kInfinity;
  }
  return hull;
}

double Affine::as_read(double weight) const {
  return gamma_ == nullptr ? weight : round_number(*gamma_, weight, {.overflow = Overflow::ieee});
}

void Affine::set(Truth& truth, std::size_t i, Enclosure x, Enclosure inverse, double stored_gamma,
                 double stored_beta, double most, double most_inverse) const {
  // What is beyond the format that they are read in is an infinity there.
  const double gamma = std::isinf(as_read(stored_gamma)) ? as_read(stored_gamma) : stored_gamma;
  const double beta = std::isinf(as_read(stored_beta)) ? as_read(stored_beta) : stored_beta;
  const Enclosure weights = std::isinf(gamma) ? Enclosure{gamma, 0} : weight(gamma);
  if (std::isnan(gamma) || std::isnan(beta)) return set_special(truth, i, std::nan(""));
  if (std::isinf(gamma)) {
    // An infinity of the sign of x, unless x inv may be 0 or of the other sign.
    const Enclosure z = normalised(x, inverse);
    const bool certain = z.error < kInfinity && (z.low() > 0 || z.high() < 0) && inverse.low() > 0;
    if (certain) return set_special(truth, i, z.value * gamma + beta, store_);
    if (x.value == 0 && x.error == 0 && z.error < kInfinity) return set_special(truth, i, std::nan(""));
    return set_unclaimed(truth, i);
  }
  const Enclosure z = scaled(x, inverse, weights);
  if (std::isinf(beta))
    return z.error < kInfinity ? set_special(truth, i, beta, store_) : set_unclaimed(truth, i);
  const Enclosure shift = weight(beta);
  const Enclosure y = beta == 0 ? z : rounded_sum(sum(z, shift), acc_, has_finer_bits(shift.value, acc_));
  if (mid_ != nullptr || gamma_ != nullptr)
    set_truth_within(truth, i, y, store_);
  else
    set_truth(truth, i, y, store_);
  if (truth.limit[i] < kInfinity) return;
  const double normal = 2 * most * most_inverse, weighted = normal * weights.magnitude();
  double range = std::min(acc_.max_finite, store_.output->max_finite);
  if (store_.through != nullptr) range = std::min(range, store_.through->max_finite);
  if (mid_ != nullptr) range = std::min(range, mid_->max_finite);
  const bool fits = 2 * std::max({normal, weighted + shift.magnitude(), most * weights.magnitude(),
                                  most_inverse * weights.magnitude()}) <
                    range;
  if (fits && std::isfinite(truth.value[i])) truth.limit[i] = kAnyNumber;
}

void Affine::set_vanished(Truth& truth, std::size_t i, double x, double stored_gamma) const {
  const double gamma = as_read(stored_gamma);
  if (std::isfinite(gamma) && !(std::fabs(gamma) < acc_.max_finite)) return set_unclaimed(truth, i);
  // Inf before 1/sqrt is NaN after it.
  const bool before = product_ == Product::any || product_ == Product::x_gamma_inv;
  if (std::isfinite(gamma) && before && !(rounded(product({x, 0}, {gamma, 0}), acc_).error < kInfinity))
    return set_unclaimed(truth, i);
  set_special(truth, i, x * 0.0 * gamma);
}

Enclosure held_eps(double eps, const Machine& acc) {
  Enclosure z = rounded({eps, 0}, acc);
  z.error = std::max(z.error, up(std::fabs(static_cast<double>(static_cast<float>(eps)) - eps)));
  return z;
}

Enclosure inverse_of_positive(Enclosure v, Enclosure eps, const Machine& acc, double rsqrt_ulp) {
  if (!(v.error < kInfinity)) return {1 / std::sqrt(v.value + eps.value), kInfinity};
  const double low = std::max(0.0, v.value - v.error);
  const double high = v.value + up(v.error);
  const Enclosure at_low = inverse_sqrt(rounded_sum(sum({low, 0}, eps), acc), acc, rsqrt_ulp);
  const Enclosure at_high = inverse_sqrt(rounded_sum(sum({high, 0}, eps), acc), acc, rsqrt_ulp);
  const Enclosure exact =
      inverse_sqrt({v.value + eps.value, 3 * kUnit64 * v.magnitude()}, machine("f64", false), 0.5);
  const double error = std::max(at_low.high() - exact.value, exact.value - at_high.low());
  return {exact.value, up(std::max(error, 0.0) + exact.error + 4 * kUnit64 * exact.value)};
}

double largest_inverse(Enclosure eps, double rsqrt_ulp, const Machine& acc) {
  const double least = eps.low() * (1 - acc.unit);
  return least > 0 ? (1 + 2 * rsqrt_ulp * acc.unit) * (1 + acc.unit) / std::sqrt(least) : kInfinity;
}

double grown(double x, double roundings, const Machine& acc) {
  return 2 * x * std::exp(roundings * acc.unit);
}

}  // namespace assay
