#include "reference/ops/attention/limits/infinities.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/gamma.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/attention/conversions.hpp"

namespace assay {

double least_scale(const Encoded& tensor) {
  double least = std::numeric_limits<double>::infinity();
  for (const Plane& plane : tensor.planes) {
    if (plane.spec.suffix.empty()) continue;
    if (plane.spec.format != "f32") return 0;
    least = std::min(least, scale_range(plane).least);
  }
  return least;
}

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLargestLogit = 256;

// The least share of a row's weights that no declared step flushes; nothing where that is not known.
std::optional<double> least_share(const AttentionProblem& problem, const Contract& contract) {
  const ScalarFormat* const p = find_scalar_format(contract.text("p"));
  const ScalarFormat* const v = find_scalar_format(problem.v().planes.front().spec.format);
  if (p == nullptr || v == nullptr || v->specials != Specials::ieee || contract.number("p_shift") < 0 ||
      contract.text("convert") != "none" || contract.text("out") == "f16" ||
      problem.geometry().dtype == "f16" || problem.geometry().rotate == RotateKind::qkv)
    return std::nullopt;
  // Of a weight against a maximum that lags.
  const double largest = std::exp(contract.number("lag")) * (1 + contract.number("exp_ulp") * 0x1p-23) *
                         std::exp2(contract.number("p_shift"));
  if (!(largest <= p->max_finite)) return std::nullopt;
  const bool range_of_f32 = p->name == "f32" || p->name == "bf16" || p->name == "tf32";
  if (problem.v().planes.size() > 1 && !(range_of_f32 && least_scale(problem.v()) >= 0x1p-60))
    return std::nullopt;
  const double smallest =
      p->kind == ScalarKind::integer ? std::exp2(-contract.number("p_shift")) : std::ldexp(1, 1 - p->bias);
  return p->bits < 8 ? std::nullopt : std::optional(16 * std::max(smallest, 0x1p-60));
}

// Of one row: the keys that it sees with their shares, in f64; empty where a logit is too large to be sure
// of.
struct Share {
  std::int64_t key;
  double share;
};
std::vector<Share> shares_of(const AttentionProblem& problem, const Contract& contract,
                             std::span<const double> k, std::int64_t b, std::int64_t row, std::int64_t head) {
  const AttentionGeometry& g = problem.geometry();
  const auto q = problem.q(b, row, head);
  const KeyRange range = problem.range(b, row);
  std::vector<Share> seen;
  const ProductSum products(problem, contract);
  // The scale, and log2 e, may come before K does.
  constexpr double kMostOfQ = std::numeric_limits<float>::max() / 4;
  for (const double x : q)
    if (!(std::fabs(x) * std::max(1.0, g.scale) < kMostOfQ)) return {};
  double largest = g.sinks ? problem.sink(head) : -kInf;
  for (std::int64_t j = range.first; j < range.last; ++j) {
    if (!problem.visible(b, row, j)) continue;
    double sum = 0, absolute = 0, raw = 0;
    for (std::int64_t c = 0; c < g.d; ++c) {
      const double of_q = q[static_cast<std::size_t>(c)], of_key = k[static_cast<std::size_t>(j * g.d + c)];
      sum += of_q * of_key;
      absolute += std::fabs(of_q * of_key);
      raw += products.most(of_q, of_key);
    }
    if (!products.fits(raw)) return {};
    double x = g.scale * sum;
    if (g.softcap != 0) x = g.softcap * std::tanh(x / g.softcap);
    const double bias = problem.slope(head) * std::fabs(static_cast<double>(problem.position(b, row) - j));
    if (!(g.scale * absolute + std::fabs(bias) < kLargestLogit)) return {};
    seen.push_back({j, x - bias});
    largest = std::max(largest, x - bias);
  }
  double total = g.sinks ? std::exp(problem.sink(head) - largest) : 0;
  for (Share& s : seen) total += s.share = std::exp(s.share - largest);
  for (Share& s : seen) s.share /= total;
  return seen;
}

// Whether what is finite stays so: an accumulator that overflows meets the infinity of V as another, or a row
// sum is one.
class Reach {
 public:
  Reach(const AttentionProblem& problem, const Contract& contract, const std::vector<Share>& shares)
      : pv_(accumulator(contract.text("pv"))) {
    const Accumulator sum = accumulator(contract.text("rowsum"));
    const auto n = static_cast<double>(shares.size());
    const double lag = std::exp(contract.number("lag")), shift = std::exp2(contract.number("p_shift"));
    // Logits are off by less than 1 against each other, and each factor by its exp; 4: every other rounding,
    // unless the sum itself rounds by more.
    factor_ = 4 * std::exp(2 + (n + static_cast<double>(contract.integer("split")) + 2) * 0x1p-23 *
                                   contract.number("exp_ulp"));
    double keys = 0, largest = 0;
    for (const Share& s : shares) keys += s.share, largest = std::max(largest, s.share);
    const double sink = std::max(0.0, 1 - keys) / largest;  // relative to the largest key
    const double weights = factor_ * (n * lag + sink) * shift * std::exp(n * unit_roundoff(sum.precision));
    sums_ = weights < std::min(largest_finite(sum.precision), kLargestF32);
    factor_ *= lag * shift * std::exp(2 * n * unit_roundoff(pv_.precision));
    const Format& v = format(problem.v().format);
    codes_ = v.kind == FormatKind::scaled ? n * scalar_format(v.element).max_finite : 0;
  }
  bool holds(double finite) const {
    return sums_ && factor_ * finite < kLargestF32 &&
           factor_ * std::max(finite, codes_) < largest_finite(pv_.precision);
  }

 private:
  static constexpr double kLargestF32 = std::numeric_limits<float>::max();
  Accumulator pv_;
  double factor_ = 1, codes_ = 0;
  bool sums_ = false;
};

}  // namespace

ProductSum::ProductSum(const AttentionProblem& problem, const Contract& contract)
    : range_(largest_finite(accumulator(contract.text("qk")).precision)) {
  const ScalarFormat* const q = find_scalar_format(contract.text("q"));
  const Format& k = format(problem.k().format);
  if (q != nullptr && q->bits <= 8) code_q_ = q->max_finite;
  if (k.kind == FormatKind::scaled) code_k_ = scalar_format(k.element).max_finite;
}
double ProductSum::most(double q, double k) const {
  return std::max(std::fabs(q), code_q_) * std::max(std::fabs(k), code_k_);
}

void claim_infinities(const AttentionProblem& problem, const CertifiedAttention& exact,
                      const Contract& contract, std::vector<double>& value, std::vector<double>& limit) {
  if (std::ranges::none_of(exact.value, [](double x) { return std::isinf(x); })) return;
  const std::optional<double> least = least_share(problem, contract);
  if (!least) return;
  const AttentionGeometry& g = problem.geometry();
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      std::vector<double> k, v;
      for (std::int64_t i = 0; i < g.rows; ++i) {
        const auto at = static_cast<std::size_t>(problem.out_index(b, i, h));
        const std::span own(exact.value.data() + at, static_cast<std::size_t>(g.dv));
        if (std::ranges::none_of(own, [](double x) { return std::isinf(x); })) continue;
        if (k.empty()) {
          const std::int64_t keys = problem.length(b);
          k.resize(static_cast<std::size_t>(keys * g.d)), v.resize(static_cast<std::size_t>(keys * g.dv));
          problem.decode_k(b, problem.kv_head(h), 0, keys, k.data());
          problem.decode_v(b, problem.kv_head(h), 0, keys, v.data());
        }
        const std::vector<Share> shares = shares_of(problem, contract, k, b, i, h);
        const Reach reach(problem, contract, shares);
        for (std::size_t c = 0; c < own.size(); ++c) {
          double finite = 0;
          for (const Share& s : shares) {
            const double x = std::fabs(v[static_cast<std::size_t>(s.key * g.dv) + c]);
            finite += std::isfinite(x) ? x : 0;
          }
          bool met = false, sure = reach.holds(finite);
          for (const Share& s : shares) {
            if (!std::isinf(v[static_cast<std::size_t>(s.key * g.dv) + c])) continue;
            met = true;
            sure &= s.share >= *least;
          }
          if (!std::isinf(own[c]) || !met || !sure) continue;
          value[at + c] = own[c];
          limit[at + c] = 0;
        }
      }
    }
}

}  // namespace assay
