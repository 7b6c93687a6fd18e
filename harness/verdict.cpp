#include "harness/verdict.hpp"

#include <fmt/format.h>

#include <cmath>

#include "reference/ops/judged.hpp"

namespace assay {
namespace {

std::string position(std::size_t index, const TensorSpec& t) {
  std::string text;
  for (std::size_t a = t.shape.size(); a-- > 0;) {
    const auto extent = static_cast<std::size_t>(t.shape[a]);
    text = fmt::format("{}{}{}", index % extent, text.empty() ? "" : ",", text);
    index /= extent;
  }
  return fmt::format("{}[{}] of {}", t.name, text, to_string(t.shape));
}

std::string bits_of(double x, const TensorSpec& t) {
  const ScalarFormat* scalar = find_scalar_format(t.format);
  if (!scalar) return "";
  EncodePolicy policy;
  policy.overflow = Overflow::ieee;
  return fmt::format("0x{:0{}x} ", encode(*scalar, x, policy), (scalar->bits + 3) / 4);
}

}  // namespace

Comparison compare(const Truth& truth, std::span<const double> got) {
  Comparison c;
  if (got.size() != truth.value.size() || truth.limit.size() != truth.value.size())
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{}: {} elements judged against {} values and {} limits", truth.output,
                                 got.size(), truth.value.size(), truth.limit.size()));
  c.elements = got.size();
  bool zeros_pass = true, unclaimed = true;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Judged j = judge(got[i], truth.value[i], truth.limit[i]);
    if (!j.ok) ++c.bad;
    if (i == 0 || j.ratio > c.worst_ratio) c.worst = i, c.worst_ratio = j.ratio;
    zeros_pass = zeros_pass && judge(0.0, truth.value[i], truth.limit[i]).ok;
    unclaimed = unclaimed && std::isinf(truth.limit[i]);
  }
  c.zeros_would_pass = zeros_pass;
  c.unclaimed = unclaimed;
  c.ok = c.bad == 0 && c.elements > 0;
  return c;
}

std::string describe(const Truth& truth, const Comparison& c, std::span<const double> got,
                     const TensorSpec& output) {
  const std::size_t i = c.worst;
  std::string text =
      fmt::format("  at     {}   {} of {} bad ({:.3g} %)\n", position(i, output), c.bad, c.elements,
                  100.0 * static_cast<double>(c.bad) / static_cast<double>(c.elements));
  text += fmt::format("  got    {}{:.9g}    want {}{:.9g}\n", bits_of(got[i], output), got[i],
                      bits_of(truth.value[i], output), truth.value[i]);
  text += fmt::format("  error  {:.4g} = {:.4g} x limit {:.4g}  <- {}", std::fabs(got[i] - truth.value[i]),
                      c.worst_ratio, truth.limit[i], truth.limit_origin);
  return text;
}

}  // namespace assay
