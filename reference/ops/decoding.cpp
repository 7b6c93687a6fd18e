#include "reference/ops/decoding.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/arithmetic/rule.hpp"
#include "reference/formats/factors.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

// tq3_0: what a number's 32 products may lose, in units of `tiny`, where a block's norm is below so many
// smallest normals; and the partial sums that it is made of. The header derives them.
constexpr double kRotatedProducts = 92, kNormalAbove = 280, kRotatedSums = 30;

// What the products of one term's factors may lose.
struct Losses {
  double underflow = 0;  // the largest t_P |R|
  bool inexact = false;  // some P is no number of the type
  bool flushed = false;  // some P, or a stored factor, may become 0
  bool open = false;     // nothing is known
};

// Factors of a term; `made` tells one that the kernel makes itself (a reciprocal), by an operation of its
// own. Factors of 1 are none: to multiply by them is exact.
struct Term {
  std::array<double, 3> f;
  std::array<bool, 3> made;
  unsigned count = 0;
  void add(double factor, bool is_made = false) {
    if (std::fabs(factor) != 1) f[count] = factor, made[count++] = is_made;
  }
};

struct Steps {
  Machine mid;
  const ScalarFormat* type;  // nullptr: f64, in which products of factors are exact
  double normal, roundings;
  bool flush;
  double half_step() const { return mid.unit * normal; }
  double most() const { return 1 + gamma_n(roundings + 2, mid.unit); }
  // Whether a factor beside an infinity may be read, or brought into the type, as 0.
  bool may_vanish(const Factors& p) const {
    for (const double factor : {p.code, p.scale, p.second, p.minimum_scale}) {
      const double size = std::fabs(factor);
      if (size != 0 && (flush ? size < normal : roundings > 1 && size <= half_step())) return true;
    }
    return false;
  }
};

Losses losses(const Term& term, const Steps& k) {
  Losses all;
  const unsigned whole = (1U << term.count) - 1;
  for (unsigned set = 1; set <= whole; ++set) {
    double product = 1, rest = 1;
    bool made = (set & (set - 1)) != 0;  // of two factors at least
    for (unsigned i = 0; i < term.count; ++i) {
      ((set >> i & 1U) != 0 ? product : rest) *= term.f[i];
      made |= (set >> i & 1U) != 0 && term.made[i];
    }
    const double size = std::fabs(product);
    if (size == 0) continue;
    all.inexact |= k.type != nullptr && round_number(*k.type, size, {.overflow = Overflow::ieee}) != size;
    const bool subnormal = size < k.normal * (made ? k.most() : 1);
    if (k.flush && subnormal)
      all.flushed |= rule(made ? Rule::decode_flushed_product : Rule::decode_flush, 1) > 0;
    if (k.roundings <= 1) continue;
    all.open |= !claims(Rule::decode_overflow, size * k.most() < k.mid.max_finite);
    // A stored factor that is a multiple of the type's last place comes into it as it is.
    if (set != whole && subnormal && (made || std::fmod(size, 2 * k.half_step()) != 0))
      all.underflow = std::max(all.underflow, std::min(k.half_step(), size) * std::fabs(rest));
  }
  return all;
}

// Where a kernel is whose number is within `error` of w, or may be 0 besides.
Enclosure or_zero(double w, double error) {
  const double low = std::min(0.0, w - error), high = std::max(0.0, w + error);
  return {low / 2 + high / 2, up(high / 2 - low / 2)};
}

}  // namespace

Decoding::Decoding(const Encoded& tensor, std::string_view mid, double roundings, bool flush)
    : tensor_(tensor),
      format_(format(tensor.format)),
      mid_(machine(mid, flush)),
      type_(mid == "f64" ? nullptr : &scalar_format(mid)),
      normal_(mid == "f64" ? 0x1p-1022 : smallest_normal(scalar_format(mid))),
      roundings_(format_.kind == FormatKind::scalar ? 0 : roundings),
      flush_(flush) {}

std::vector<Enclosure> Decoding::operator()(std::int64_t first, std::span<const double> exact) const {
  const double own = format_.decode_relative_error * 2;
  std::vector<Enclosure> all(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    all[i] = {exact[i], std::isfinite(exact[i]) ? own * std::fabs(exact[i]) : 0};
  if (roundings_ <= 1 && !flush_) return all;
  const Steps k{mid_, type_, normal_, roundings_, flush_};
  const double g = roundings_ > 1 ? gamma_n(roundings_, mid_.unit) : 0;
  const bool rotated = format_.name.starts_with("tq3");
  std::vector<Factors> parts(exact.size());
  factors(tensor_, first, parts);
  double norm = 0;  // of a rotated block
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double w = exact[i];
    if (rotated && i % 32 == 0) {
      norm = 0;
      for (std::size_t j = i; j < std::min(i + 32, exact.size()); ++j) norm += exact[j] * exact[j];
      norm = std::sqrt(norm) * (1 + 0x1p-40);
    }
    const Factors& p = parts[i];
    if (!std::isfinite(w)) {
      if (std::isinf(w) && k.may_vanish(p)) all[i].error = kInfinity;
      continue;
    }
    Term term{}, taken{};
    for (const double factor : {p.code, p.scale}) term.add(factor);
    term.add(p.divides ? 1 / p.second : p.second, p.divides);
    for (const double factor : {p.minimum, p.minimum_scale}) taken.add(factor);
    const Losses a = losses(term, k), b = losses(taken, k);
    const double product = std::fabs(p.divides ? p.code * p.scale / p.second : p.code * p.scale * p.second),
                 minimum = std::fabs(p.minimum * p.minimum_scale);
    double& error = all[i].error;
    const bool is_zero = !rotated && product == 0 && minimum == 0;  // of a code of 0, whatever is rounded
    if (roundings_ > 1 && !is_zero) {
      // Rounded before they cancel, where a product is no number of the type; the last rounding is of the
      // difference.
      const double before = minimum == 0 || !(a.inexact || b.inexact)
                                ? 0
                                : gamma_n(roundings_ - 1, mid_.unit) * (product + minimum);
      const double after = g * (rotated ? norm : std::fabs(w));
      const double cancelled =
          before == 0 ? 0 : rule(Rule::decode_minimum, before + mid_.unit * (std::fabs(w) + before));
      const double relative = std::max(after, cancelled);
      error += rule(Rule::decode_rounding, relative * (1 + 0x1p-40));
      error += rule(Rule::decode_underflow, (roundings_ - 1) * (a.underflow + b.underflow) * k.most());
      if (rotated) {
        const double products = norm < kNormalAbove * normal_ ? kRotatedProducts * mid_.tiny : 0;
        error += rule(Rule::decode_rotated_underflow, (products + kRotatedSums * mid_.tiny_add) * k.most());
      }
      if (std::fabs(w) < 2 * normal_ || (minimum != 0 && std::min(product, minimum) < 2 * normal_))
        error += rule(Rule::decode_last_underflow, (minimum == 0 ? 1 : 2) * k.half_step());
    }
    // A divisor has to come into the type as a number that it can divide by.
    const double divisor = std::fabs(p.second);
    const bool narrowed =
        roundings_ > 1 && (!(divisor * k.most() < mid_.max_finite) ||
                           (divisor < normal_ && std::fmod(divisor, 2 * k.half_step()) != 0));
    const bool by_zero =
        p.divides && (narrowed || (flush_ && divisor < normal_)) && !claims(Rule::decode_overflow, false);
    const bool overflows =
        roundings_ > 1 && !(rotated ? 6 * norm < mid_.max_finite : std::fabs(w) + error < mid_.max_finite);
    if (a.open || b.open || by_zero || overflows) {
      error = kInfinity;
    } else if (minimum == 0) {
      const bool may_vanish = a.flushed || (rotated && flush_ && norm < 11 * normal_);
      all[i] = may_vanish ? or_zero(w, error) : Enclosure{w, up(error)};
    } else {
      const bool is_tiny = flush_ && std::fabs(w) < normal_ * k.most();
      error += (a.flushed ? product : 0) + (b.flushed ? minimum : 0);
      error = up(error + rule(Rule::decode_flushed_product, is_tiny ? std::fabs(w) : 0));
    }
  }
  return all;
}

}  // namespace assay
