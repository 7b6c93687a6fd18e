// What layernorm and rmsnorm share: the contract keys of a reduction with rsqrt, and the products that follow
// it.
#pragma once

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "reference/ops/op_io.hpp"

namespace assay {

inline constexpr std::array kNormKeys = {
    KeySpec{
        "acc", KeyKind::accumulator, "f32", "",
        "the type of every intermediate result, of a maximum and a sum of one term too; inputs are read as "
        "they are"},
    KeySpec{"order", KeyKind::order, "any", "", "in which sums over a row are formed"},
    KeySpec{"rsqrt_ulp", KeyKind::real, "2", kUlps, "error of 1/sqrt, in units in the last place of acc"},
    KeySpec{"div_ulp", KeyKind::real, "2", kUlps,
            "error of the division by the row length, or of 1/length, which is then multiplied; a "
            "quotient keeps its sign; 0.5: rounded to nearest"},
    KeySpec{"mid", KeyKind::word, "acc", "acc|f32|f16|bf16",
            "the normalised x is rounded to this before gamma; acc: it is not"},
    KeySpec{"product", KeyKind::word, "any", "any|x_inv_gamma|x_gamma_inv|gamma_inv_x",
            "which of x, 1/sqrt and gamma are multiplied first"},
    KeySpec{"gamma", KeyKind::word, "f32", "f32|f16|bf16",
            "gamma and beta are rounded to this as they are read"},
};
template <std::size_t N>
constexpr auto with_norm_keys(const std::array<KeySpec, N>& own) {
  return with_store_keys(joined(own, kNormKeys));
}

// The last steps of both ops: x inv gamma + beta, x centred, as the contract orders and rounds them.
//   product=x_inv_gamma  fl(rd_mid(fl(x inv)) gamma)
//   product=x_gamma_inv  fl(fl(x gamma) inv)          where x gamma underflows, or overflows, it does so
//                                                     before inv can help
//   product=gamma_inv_x  fl(fl(gamma inv) x)
//   product=any          the hull of the three: they differ by where the range ends alone, each is two
//                        roundings
// A `mid` other than acc stands between x inv and gamma, and so leaves x_inv_gamma alone. Roundings to mid
// and of gamma are decided() where they can be, and then the truth is the declared arithmetic's number, not
// the exact one within half a step of mid: a kernel that declares such a rounding and skips it is wrong.
class Affine {
 public:
  // Throws InputError bad_value for a mid with another product.
  Affine(const Contract& contract, std::string_view output);
  const Machine& acc() const { return acc_; }
  // Element i of the truth. most: no |x| of the row is larger; most_inverse: no kernel's 1/sqrt is, +Inf
  // where it may overflow. beta is +-0 for rmsnorm. Where the analysis alone gives out, the range does not,
  // the limit is the largest double: any finite number may stand there.
  void set(Truth& truth, std::size_t i, Enclosure x, Enclosure inverse, double gamma, double beta,
           double most, double most_inverse) const;
  // The finite x of a row whose 1/sqrt is 0.
  void set_vanished(Truth& truth, std::size_t i, double x, double gamma) const;

 private:
  double as_read(double weight) const;  // gamma or beta, rounded as it is read
  Enclosure normalised(Enclosure x, Enclosure inverse) const;
  Enclosure scaled(Enclosure x, Enclosure inverse, Enclosure gamma) const;
  Enclosure weight(double x) const;  // gamma or beta as it is read

  enum class Product : std::uint8_t { any, x_inv_gamma, x_gamma_inv, gamma_inv_x };
  Machine acc_;
  Store store_;
  Product product_;
  const ScalarFormat* mid_;    // nullptr: no rounding
  const ScalarFormat* gamma_;  // nullptr: f32, exact
};

// eps as a kernel holds it: rounded to acc, or where that is wider to f32, in which engines hand it over.
Enclosure held_eps(double eps, const Machine& acc);

// 1 / sqrt(v + eps) where no kernel's v is negative (a mean of squares, a variance): v's interval is cut at
// 0.
Enclosure inverse_of_positive(Enclosure v, Enclosure eps, const Machine& acc, double rsqrt_ulp);
// The largest 1/sqrt(v + eps) of a kernel with v >= 0; +Inf where eps may round to 0.
double largest_inverse(Enclosure eps, double rsqrt_ulp, const Machine& acc);
// An upper bound of what n roundings make of a positive number, to be compared with the range: e^(n u),
// doubled.
double grown(double x, double roundings, const Machine& acc);

inline bool all_finite(std::span<const double> row) {
  for (const double x : row)
    if (!std::isfinite(x)) return false;
  return true;
}

// x_i^2 as a kernel forms it (d_i^2 alike).
inline Enclosure squared(Enclosure x, const Machine& m) { return rounded(product(x, x), m); }
// A sum divided by n: the quotient's error, or that of a rounded 1/n and a product. An n beyond the range is
// Inf, and the mean 0.
inline Enclosure mean_of(Enclosure sum, double n, double div_ulp, const Machine& m) {
  if (n < m.max_finite) return divided(sum, count(n, m), m, div_ulp, 1);
  const Enclosure z = quotient(sum, {n, 0});
  return {z.value, rule(Rule::divisor_rounding, z.magnitude())};
}

}  // namespace assay
