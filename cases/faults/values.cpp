// Single numbers at seeded positions, before the format encodes them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/faults/families.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::fault_families {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float>& first_values(const FaultSite& site, Values& values) {
  return values.at(first_data(site).name);
}

float& seeded(const FaultSite& site, std::vector<float>& x) {
  return x[Stream(site.seed, "fault").below(0, x.size())];
}

// The logit of the last row of head 0 against `keys` of sequence 0 becomes `target`:
//   k = target q / (scale |q|^2)
// softmax and logsumexp: the logits themselves.
template <typename Chosen>
void aim_scores(const FaultSite& site, Values& values, double target, Chosen chosen) {
  if (site.op.name != "attention") {
    std::vector<float>& x = first_values(site, values);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (chosen(static_cast<std::int64_t>(i))) x[i] = static_cast<float>(target);
    return;
  }
  const AttentionProblem problem(site.attributes, site.clean);
  const AttentionGeometry& g = problem.geometry();
  const auto q = problem.q(0, g.rows - 1, 0);
  double squares = 0;
  for (const double x : q) squares += x * x;
  const double factor = target / (g.scale * squares);
  std::vector<float>& k = values.at("k");
  for (std::int64_t j = 0; j < problem.length(0); ++j) {
    if (!chosen(j)) continue;
    const std::int64_t first = problem.token(0, j) * g.kv_heads * g.d;
    for (std::int64_t c = 0; c < g.d; ++c)
      k[static_cast<std::size_t>(first + c)] = static_cast<float>(factor * q[static_cast<std::size_t>(c)]);
  }
}

}  // namespace

// The NaN stands where it changes no other row: a scale over columns, or over the whole tensor, that came
// from the element itself would move them all, and by so little that the truths, once they are rounded, need
// not show it.
void nan_value(const FaultSite& site, Values& values) {
  const TensorSpec& t = first_data(site);
  std::vector<float>& x = first_values(site, values);
  const auto stored = [&] { return decode_tensor(encode_tensor(format(t.format), t.shape, x)); };
  const std::vector<double> clean = stored();
  const std::size_t row = x.size() / static_cast<std::size_t>(std::max<std::int64_t>(t.shape.front(), 1));
  constexpr std::uint64_t kTried = 64;
  for (std::uint64_t k = 0; k < kTried; ++k) {
    const std::size_t at = Stream(site.seed, "fault").below(k, x.size());
    const float kept = x[at];
    x[at] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<double> now = stored();
    if (std::ranges::none_of(now, [](double v) { return std::isnan(v); })) break;
    bool alone = true;
    for (std::size_t i = 0; alone && i < now.size(); ++i) alone = i / row == at / row || now[i] == clean[i];
    if (alone) return;
    x[at] = kept;
  }
  no_site(site, "a format that has a NaN, and an element that no other row takes its scale from");
}
void nan_code(const FaultSite& site, Values& values) {
  seeded(site, first_values(site, values)) = std::numeric_limits<float>::quiet_NaN();
}
void inf_value(const FaultSite& site, Values& values) {
  seeded(site, first_values(site, values)) = kInfinity;
}
void negative_inf_value(const FaultSite& site, Values& values) {
  seeded(site, first_values(site, values)) = -kInfinity;
}
// A row between two others, where there are so many.
void infinite_row(const FaultSite& site, Values& values) {
  std::vector<float>& x = first_values(site, values);
  const auto row = static_cast<std::size_t>(first_data(site).shape.back());
  const std::size_t first = x.size() / row / 2 * row;
  std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(first), row, -kInfinity);
}
void nan_leader(const FaultSite& site, Values& values) {
  first_values(site, values)[0] = std::numeric_limits<float>::quiet_NaN();
}

// Two in one row, where it has room for them: the first is the one that is reported.
void nan_follower(const FaultSite& site, Values& values) {
  std::vector<float>& x = first_values(site, values);
  const auto row = static_cast<std::size_t>(first_data(site).shape.back());
  if (row < 2) no_site(site, "two columns");
  const Stream stream(site.seed, "fault");
  float* const first = &x[stream.below(0, x.size() / row) * row];
  for (const std::uint64_t k : {1, 2})
    first[1 + stream.below(k, row - 1)] = std::numeric_limits<float>::quiet_NaN();
}
// b[n, k]: Inf at one term of column 0, where every other row of a, from row 0 on, is 0.
void inf_against_zero(const FaultSite& site, Values& values) {
  const ScalarFormat* scalar = find_scalar_format(site.attributes.text("b"));
  if (scalar == nullptr || std::isfinite(round_to(*scalar, kInfinity, {.overflow = Overflow::ieee})))
    no_site(site, "a format of b that has an infinity");
  std::vector<float>&a = values.at("a"), &b = values.at("b");
  const auto terms = static_cast<std::size_t>(first_data(site).shape.back());
  const std::size_t at = Stream(site.seed, "fault").below(0, terms);
  b[at] = kInfinity;
  for (std::size_t i = at; i < a.size(); i += 2 * terms) a[i] = 0;
}

void outlier_value(const FaultSite& site, Values& values) {
  float& x = seeded(site, first_values(site, values));
  x = std::copysign(800.0F, x);
}

void subnormal_values(const FaultSite& site, Values& values) {
  const TensorSpec& t = first_data(site);
  const ScalarFormat* scalar = find_scalar_format(t.format);
  if (scalar == nullptr || scalar->kind != ScalarKind::floating) no_site(site, "a floating format");
  std::vector<float>& x = first_values(site, values);
  for (std::size_t i = 0; i < x.size(); i += 4)  // below the smallest normal, 2^(1 - bias)
    x[i] = std::ldexp(x[i], -scalar->bias - 3);
}

void negative_zeros(const FaultSite& site, Values& values) {
  std::vector<float>& x = first_values(site, values);
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -0.0F;
}

void equal_maxima(const FaultSite& site, Values& values) {
  std::vector<float>& x = first_values(site, values);
  const auto row = static_cast<std::size_t>(first_data(site).shape.back());
  for (std::size_t first = 0; first + row <= x.size(); first += row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    const float most = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(row));
    x[first + Stream(site.seed, "fault").below(first, row)] = most;
    x[first + row - 1] = most;
    if (site.op.name != "argmax" || first / row % 2 == 0 || row < 2) continue;
    // -0 in front of 0: the greater one by their bits, and neither as numbers.
    for (std::size_t i = first; i < first + row; ++i) x[i] = -std::fabs(x[i]) - 1;
    x[first + Stream(site.seed, "fault").below(first, row - 1)] = -0.0F;
    x[first + row - 1] = 0;
  }
}

// Half-way between two neighbouring codes of the output's element, which is exact in x's format.
void halfway_values(const FaultSite& site, Values& values) {
  const auto out = std::ranges::find(site.tensors, TensorRole::output, &TensorSpec::role);
  const ScalarFormat* scalar = find_scalar_format(out->format);
  if (scalar == nullptr || scalar->kind != ScalarKind::floating) no_site(site, "a floating output format");
  std::vector<float>& x = first_values(site, values);
  for (std::size_t i = 0; i < x.size(); i += 2)
    x[i] = std::copysign(1.0F + std::ldexp(1.0F, -scalar->fraction_bits - 1), x[i]);
}

void low_scores(const FaultSite& site, Values& values) {
  aim_scores(site, values, -500.0, [](std::int64_t j) { return j % 4 == 1; });
}
void high_score(const FaultSite& site, Values& values) {
  aim_scores(site, values, 65504.0, [](std::int64_t j) { return j == 3; });
}
void very_low_scores(const FaultSite& site, Values& values) {
  aim_scores(site, values, -65504.0, [](std::int64_t j) { return j % 4 == 1; });
}

}  // namespace assay::fault_families
