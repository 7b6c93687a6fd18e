#include "cases/studies/mutants/rules.hpp"

#include <algorithm>
#include <array>

#include "reference/formats/scalar.hpp"

namespace assay::mutants {
namespace {

// A NaN or Inf that the truth has too is skipped, as these checks do or are told to do.
bool finite_pair(double a, double b) { return std::isfinite(a) && std::isfinite(b); }
bool same_special(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

bool nmse(const RuleInput& in) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < in.got.size(); ++i) {
    if (same_special(in.truth[i], in.got[i])) continue;
    if (!finite_pair(in.truth[i], in.got[i])) return false;
    const double e = in.got[i] - in.truth[i];
    error += e * e;
    power += in.truth[i] * in.truth[i];
  }
  constexpr double kNmse = 5e-4;  // test-backend-ops' max_nmse_err of matrix products and attention
  return error == 0 || error / power <= kNmse;
}

bool relative_and_absolute(const RuleInput& in) {
  struct Tolerance {
    std::string_view format;
    double relative, absolute;
  };
  // torch.testing.assert_close: its defaults by dtype.
  static constexpr std::array<Tolerance, 2> kTolerances = {{{"f16", 1e-3, 1e-5}, {"bf16", 1.6e-2, 1e-5}}};
  Tolerance t{"f32", 1.3e-6, 1e-5};
  for (const auto& row : kTolerances)
    if (row.format == in.format) t = row;
  for (std::size_t i = 0; i < in.got.size(); ++i) {
    if (same_special(in.truth[i], in.got[i])) continue;
    if (!(std::fabs(in.got[i] - in.truth[i]) <= t.absolute + t.relative * std::fabs(in.truth[i])))
      return false;
  }
  return true;
}

bool cosine(const RuleInput& in) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < in.got.size(); ++i) {
    if (same_special(in.truth[i], in.got[i])) continue;
    if (!finite_pair(in.truth[i], in.got[i])) return false;
    dot += in.got[i] * in.truth[i];
    aa += in.got[i] * in.got[i];
    bb += in.truth[i] * in.truth[i];
  }
  if (aa == 0 && bb == 0) return true;
  return dot >= 0.999 * std::sqrt(aa) * std::sqrt(bb);
}

bool twice_the_error(const RuleInput& in) {
  double worst = 0, allowed = 0;
  for (std::size_t i = 0; i < in.got.size(); ++i) {
    if (same_special(in.truth[i], in.got[i])) continue;
    if (!finite_pair(in.truth[i], in.got[i])) return false;
    worst = std::max(worst, std::fabs(in.got[i] - in.truth[i]));
    if (std::isfinite(in.reference[i])) allowed = std::max(allowed, std::fabs(in.reference[i] - in.truth[i]));
  }
  constexpr double kAdded = 1e-5;  // flash-attention's tests add it
  return worst <= (in.fp8 ? 4 : 2) * allowed + kAdded;
}

// Products and sums of small integers are exact: the output is the truth in the output's format.
bool exact_integers(const RuleInput& in) {
  if (!in.integers) return true;
  const ScalarFormat* format = find_scalar_format(in.format);
  for (std::size_t i = 0; i < in.got.size(); ++i) {
    const double want = format ? decode(*format, encode(*format, in.truth[i], {})) : in.truth[i];
    if (in.got[i] != want && !same_special(want, in.got[i])) return false;
  }
  return true;
}

constexpr std::array<Rule, 5> kRules = {{
    {"nmse 5e-4", "llama.cpp test-backend-ops: sum of squared errors over sum of squares, the whole output",
     nmse},
    {"allclose",
     "torch.testing.assert_close defaults: f32 1.3e-6 + 1e-5, f16 1e-3 + 1e-5, bf16 1.6e-2 + 1e-5",
     relative_and_absolute},
    {"cosine .999", "cosine similarity of the whole output", cosine},
    {"2x reference",
     "flash-attention: largest error at most 2x (8 bits: 4x) that of a reference of the same precision, + "
     "1e-5",
     twice_the_error},
    {"integers", "small-integer inputs: the output must equal the exact result", exact_integers},
}};

}  // namespace

std::span<const Rule> rules() { return kRules; }

}  // namespace assay::mutants
