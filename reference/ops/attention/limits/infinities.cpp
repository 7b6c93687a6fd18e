#include "reference/ops/attention/limits/infinities.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/formats/plane.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {
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
  const bool range_of_f32 = p->name == "f32" || p->name == "bf16" || p->name == "tf32";
  if (!range_of_f32 && problem.v().planes.size() > 1) return std::nullopt;
  const double smallest = p->kind == ScalarKind::integer ? 1 / p->max_finite : std::ldexp(1, 1 - p->bias);
  return p->bits < 8 ? std::nullopt : std::optional(16 * std::max(smallest, 0x1p-60));
}

// Of one row: the keys that it sees with their shares, in f64; empty where a logit is too large to be sure of.
struct Share {
  std::int64_t key;
  double share;
};
std::vector<Share> shares_of(const AttentionProblem& problem, std::span<const double> k, std::int64_t b,
                             std::int64_t row, std::int64_t head) {
  const AttentionGeometry& g = problem.geometry();
  const auto q = problem.q(b, row, head);
  const KeyRange range = problem.range(b, row);
  std::vector<Share> seen;
  double largest = g.sinks ? problem.sink(head) : -kInf;
  for (std::int64_t j = range.first; j < range.last; ++j) {
    if (!problem.visible(b, row, j)) continue;
    double sum = 0, absolute = 0;
    for (std::int64_t c = 0; c < g.d; ++c) {
      const double product = q[static_cast<std::size_t>(c)] * k[static_cast<std::size_t>(j * g.d + c)];
      sum += product;
      absolute += std::fabs(product);
    }
    double x = g.scale * sum;
    if (g.softcap != 0) x = g.softcap * std::tanh(x / g.softcap);
    const double bias = problem.slope(head) * std::fabs(static_cast<double>(problem.position(b, row) - j));
    if (!(g.scale * absolute + bias < kLargestLogit)) return {};
    seen.push_back({j, x - bias});
    largest = std::max(largest, x - bias);
  }
  double total = g.sinks ? std::exp(problem.sink(head) - largest) : 0;
  for (Share& s : seen) total += s.share = std::exp(s.share - largest);
  for (Share& s : seen) s.share /= total;
  return seen;
}

}  // namespace

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
        const std::vector<Share> shares = shares_of(problem, k, b, i, h);
        for (std::size_t c = 0; c < own.size(); ++c) {
          bool met = false, sure = true;
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
