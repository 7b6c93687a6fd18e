#include "reference/ops/formula/member.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/mix.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/formula/interval.hpp"
#include "reference/ops/formula/plan.hpp"
#include "reference/ops/formula/walk.hpp"
#include "reference/ops/op_io.hpp"

namespace assay::formula {
namespace {

Precision precision_of(const ScalarFormat& f) {
  if (f.bits == 64) return kPrecisionF64;
  if (f.bits == 32) return kPrecisionF32;
  return f.exponent_bits == 5 ? kPrecisionF16 : kPrecisionBf16;
}

long double function_value(const std::string& f, long double x) {
  if (f == "exp") return std::exp(x);
  if (f == "exp2") return std::exp2(x);
  if (f == "log") return std::log(x);
  if (f == "log2") return std::log2(x);
  if (f == "sin") return std::sin(x);
  if (f == "cos") return std::cos(x);
  if (f == "tanh") return std::tanh(x);
  if (f == "erf") return std::erf(x);
  if (f == "sqrt") return std::sqrt(x);
  if (f == "rsqrt") return 1 / std::sqrt(x);
  if (f == "sigmoid") return 1 / (1 + std::exp(-x));
  if (f == "softplus") return x > 40 ? x : std::log1p(std::exp(x));
  return std::numeric_limits<long double>::quiet_NaN();
}

}  // namespace

Member::Member(std::span<const KeySpec> keys, const Contract& contract, std::uint64_t seed)
    : state_(seed), plain_(seed == 0) {
  for (const KeySpec& k : keys) contract_.emplace(k.name, contract.text(k.name));
  flush_ = contract_.at("ftz") == "yes" && !plain_ && coin();
}

std::string Member::key(const std::string& what, std::string_view otherwise) const {
  const auto found = contract_.find(equation_ + "." + what);
  return found == contract_.end() ? std::string(otherwise) : found->second;
}

std::uint64_t Member::draw(std::uint64_t n) { return next_mixed(state_) % n; }
bool Member::coin(std::uint64_t one_in) { return !plain_ && draw(one_in) == 0; }

void Member::begin(const std::string& equation) {
  equation_ = equation;
  acc_ = &accumulator_format(key("acc", contract_.at("acc")));
  precision_ = precision_of(*acc_);
  order_ = order_of(key("order", "any"));
  fma_ = key("fma", "no");
  any_product_ = !plain_ && key("products", "written") == "any";
  lean_ = plain_ ? 3 : static_cast<int>(draw(4));
}

double Member::flushed(double x) {
  return flush_ && std::fabs(x) < power_of_two(precision_.emin) ? std::copysign(0.0, x) : x;
}
double Member::rounded(double exact) { return flushed(round_to_precision(exact, precision_)); }
double Member::operand(double x) {
  if (precision_.p < 24 && coin()) x = round_to_precision(x, precision_);
  return flushed(x);
}

Member::Num Member::outside() { return {std::numeric_limits<double>::quiet_NaN()}; }

Member::Num Member::constant(double v) { return {coin() ? round_f32(v) : round_to_precision(v, precision_)}; }

// x + a b in one rounding, or x + fl(a b).
double Member::added(double x, const Num& term) {
  const bool fuse = term.product && (fma_ == "yes" || (fma_ == "any" && coin()));
  if (!fuse) return flushed(round_sum(operand(x), operand(term.value), precision_));
  if (precision_.p == 53) return std::fma(term.a, term.b, x);
  const double p = term.a * term.b;  // exact: of two numbers of 24 bits or fewer
  return flushed(round_sum(operand(x), p, precision_));
}

Member::Num Member::add(const Num& a, const Num& b) {
  if (precision_.p == 53 && !a.product && !b.product) return {a.value + b.value};
  if (a.product && (!b.product || coin())) return {added(b.value, a)};
  return {added(a.value, b)};
}
Member::Num Member::sub(const Num& a, const Num& b) { return add(a, {-b.value, -b.a, b.b, b.product}); }

Member::Num Member::mul(const Num& a, const Num& b) {
  const double x = operand(a.value), y = operand(b.value);
  return {precision_.p == 53 ? x * y : rounded(x * y), x, y, true};
}

Member::Num Member::product(std::vector<Num> factors) {
  while (factors.size() > 1) {
    const std::size_t a = draw(factors.size());
    std::swap(factors[a], factors.back());
    const Num x = factors.back();
    factors.pop_back();
    Num& y = factors[draw(factors.size())];
    y = mul(settle(x), settle(y));
  }
  return factors[0];
}

// A number of the accumulator within so many ulps of the exact one.
double Member::near(long double exact, double ulp) {
  const double value = static_cast<double>(exact);
  if (exact == 0 || !std::isfinite(value)) return value;
  double z = round_to_precision(value, precision_);
  const int whole = static_cast<int>(ulp - 0.5);
  if (whole < 1 || lean_ == 3 || !std::isfinite(z)) return flushed(z);
  int e = std::numeric_limits<int>::min() / 2;
  if (value != 0) (void)std::frexp(value, &e);
  const double step = std::ldexp(1.0, std::max(e - 1, precision_.emin) - precision_.p + 1);
  const int k = lean_ == 1 ? whole : lean_ == 2 ? -whole : static_cast<int>(draw(2 * whole + 1)) - whole;
  const double moved = round_to_precision(z + k * step, precision_);
  const bool keeps_sign =
      exact > 0 ? moved >= 0 : moved <= 0;  // no function and no quotient leaves its range
  if (keeps_sign &&
      std::fabs(static_cast<long double>(moved) - exact) <= static_cast<long double>(ulp) * step)
    z = moved;
  return flushed(z);
}

Member::Num Member::div(const Num& a, const Num& b) {
  const double ulp = std::stod(key("div_ulp", "0.5"));
  const double x = operand(a.value), y = operand(b.value);
  if (ulp >= 2 && coin() && std::isfinite(1 / y)) {
    const double inverse = rounded(1 / y);
    if (std::isfinite(inverse)) return {rounded(x * inverse)};
  }
  if (y == 0 || !std::isfinite(x) || !std::isfinite(y)) return {x / y};
  if (ulp <= 0.5) return {precision_.p == 53 ? x / y : rounded(x / y)};
  return {near(static_cast<long double>(x) / y, ulp)};
}

Member::Num Member::function(const std::string& name, const Num& x) {
  if (name == "round") return {std::nearbyint(x.value)};
  if (name == "floor") return {std::floor(x.value)};
  if (name == "exponent") return {x.value == 0 ? -1000.0 : std::ilogb(x.value)};
  const double ulp = std::stod(key(name + "_ulp", "0.5"));
  const double in = operand(x.value);
  const long double exact = function_value(name, in);
  if (std::isnan(in) || std::isnan(static_cast<double>(exact)))
    return {std::numeric_limits<double>::quiet_NaN()};
  double z = near(exact, ulp);
  const double off = std::stod(key(name + "_abs", "0"));
  if (off > 0 && coin()) {
    const double moved = round_to_precision(z + (coin() ? off : -off), precision_);
    if (std::fabs(moved - z) <= off) z = moved;
  }
  if (name == "sigmoid" && z < power_of_two(precision_.emin) && coin()) z = 0;
  return {z};
}

Member::Num Member::sum(const std::vector<Num>& given) {
  if (given.empty()) return {0};
  std::vector<Num> terms = given;
  const auto n = static_cast<std::int64_t>(terms.size());
  const auto sequence = [&](std::span<const Num> part) {
    double s = added(0, part[0]);
    for (std::size_t k = 1; k < part.size(); ++k) s = added(s, part[k]);
    return s;
  };
  const auto shuffle = [&] {
    for (std::size_t k = terms.size(); k > 1; --k) std::swap(terms[k - 1], terms[draw(k)]);
  };
  const auto tree = [&](std::vector<double> s) {
    while (s.size() > 1) {
      std::vector<double> next;
      for (std::size_t k = 0; k < s.size(); k += 2)
        next.push_back(k + 1 < s.size() ? added(s[k], {s[k + 1]}) : s[k]);
      s = std::move(next);
    }
    return s[0];
  };
  const auto leaves = [&](std::span<const Num> part) {
    std::vector<double> s;
    for (const Num& t : part) s.push_back(added(0, t));
    return s;
  };
  Order order = order_;
  if (order == Order::any && !plain_) {
    switch (draw(6)) {
      case 0:
        std::ranges::reverse(terms);
        break;
      case 1:
        shuffle();
        break;
      case 2:
        order = Order::tree;
        break;
      case 3:
        order = {Order::lanes, static_cast<std::int64_t>(
                                   draw(static_cast<std::uint64_t>(std::min<std::int64_t>(n, 256))) + 1)};
        break;
      case 4:  // the largest first: what follows is cut most
        std::ranges::sort(terms, std::greater<>(), [](const Num& t) { return std::fabs(t.value); });
        break;
      default:  // one sign, then the other
        std::ranges::sort(terms, std::greater<>(), [](const Num& t) { return t.value; });
    }
  }
  if (order == Order::tree || order == Order::depth) {
    if (order == Order::depth && order.count >= n - 1) return {sequence(terms)};
    return {tree(leaves(terms))};
  }
  if (order == Order::lanes) {
    const std::int64_t lanes = std::min(order.count, n);
    std::vector<double> parts;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      std::vector<Num> own;
      for (std::int64_t k = lane; k < n; k += lanes) own.push_back(terms[static_cast<std::size_t>(k)]);
      parts.push_back(sequence(own));
    }
    return {tree(parts)};
  }
  if (order == Order::blocks) {
    std::vector<Num> parts;
    for (std::int64_t k = 0; k < n; k += order.count)
      parts.push_back({sequence(std::span(terms).subspan(
          static_cast<std::size_t>(k), static_cast<std::size_t>(std::min(order.count, n - k))))});
    return {sequence(parts)};
  }
  return {sequence(terms)};
}

bool Member::saturates(const ScalarFormat& f) const {
  if (f.kind == ScalarKind::integer) return true;
  const std::string& overflow = contract_.at("overflow");
  return overflow == "format" ? f.bits <= 8 : overflow == "saturate";
}

Member::Num Member::cast(const std::string& word, const Num& x) {
  const std::string to = find_scalar_format(word) != nullptr ? word : key(word, "acc");
  return to == "acc" ? x : store(to, x, false);
}

Member::Num Member::store(const std::string& format, const Num& x, bool output) {
  const ScalarFormat& f = scalar_format(format);
  EncodePolicy policy;
  policy.overflow = saturates(f) ? Overflow::saturate : Overflow::ieee;
  const std::string& round = contract_.at("round");
  if (output && round == "nearest_away") policy.rounding = Rounding::nearest_away;
  if (output && round == "toward_zero") policy.rounding = Rounding::toward_zero;
  double z = 0;
  if (output && round == "stochastic") {
    policy.rounding = Rounding::toward_negative;
    z = coin() ? rounded_up(f, x.value, policy) : round_to(f, x.value, policy);
  } else {
    z = f.bits == 64 ? x.value : round_to(f, x.value, policy);
  }
  if (flush_ && f.kind == ScalarKind::floating && f.bits >= 16 && std::fabs(z) < smallest_normal(f)) z = 0;
  return {z};
}

bool Member::reads_stored(const std::string& name) {
  const auto found = contract_.find(name + ".read");
  if (found == contract_.end()) return true;
  if (found->second != "any") return found->second == "stored";
  const auto [at, fresh] = reads_.try_emplace(name, true);
  if (fresh) at->second = plain_ || coin();
  return at->second;
}

std::map<std::string, std::vector<double>> outputs_of(const Text& text, const Attributes& attributes,
                                                      const TensorSet& inputs, Member& member) {
  Walk<Member> walk(text, attributes, member);
  for (const Input& in : text.inputs) {
    const Encoded& t = inputs.at(in.name);
    const ScalarFormat* scalar = find_scalar_format(t.format);
    walk.give(in.name, in.axes.empty() ? Shape{} : t.shape, decode_tensor(t),
              scalar != nullptr && scalar->kind == ScalarKind::integer);
  }
  walk.run();
  std::map<std::string, std::vector<double>> made;
  for (const Equation& e : text.equations) {
    if (e.kind != EquationKind::out) continue;
    const auto& held = walk.held(e.name);
    for (std::size_t i = 0; i < held.stored.size(); ++i)
      made[e.name].push_back(held.whole ? static_cast<double>(held.integers[i]) : held.stored[i].value);
  }
  return made;
}

}  // namespace assay::formula
