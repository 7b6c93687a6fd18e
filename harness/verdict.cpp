#include "harness/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/ops/judged.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr std::size_t kFirstBad = 8;  // elements that are told one by one
constexpr std::size_t kMapRows = 16,
                      kMapColumns = 48;  // tiles of a map: what a line of text and a phone have room for

std::string indices(std::size_t index, const TensorSpec& t) {
  std::string text;
  for (std::size_t a = t.shape.size(); a-- > 0;) {
    const auto extent = static_cast<std::size_t>(t.shape[a]);
    text = fmt::format("{}{}{}", index % extent, text.empty() ? "" : ",", text);
    index /= extent;
  }
  return fmt::format("{}[{}]", t.name, text);
}

std::string bits_of(double x, const TensorSpec& t) {
  const ScalarFormat* scalar = find_scalar_format(t.format);
  if (!scalar) return "";
  EncodePolicy policy;
  policy.overflow = Overflow::ieee;
  return fmt::format("0x{:0{}x} ", encode(*scalar, x, policy), (scalar->bits + 3) / 4);
}

}  // namespace

std::size_t octave_of(bool ok, double ratio) {
  constexpr int kLowest = -12;
  if (ratio == 0) return 0;
  std::size_t octave = kOctaves - 1;
  if (std::isfinite(ratio)) {
    int exponent =
        0;  // ratio = m 2^exponent with m in [1/2, 1), so that 2^exponent is the first power not below it but for m = 1/2
    if (std::frexp(ratio, &exponent) == 0.5) --exponent;
    octave = static_cast<std::size_t>(1 + std::clamp(exponent - kLowest, 0, static_cast<int>(kOctaves) - 2));
  }
  // An error just above its limit may have a quotient that rounds to 1.
  return ok ? octave : std::max(octave, kFirstBadOctave);
}

BadElements bad_elements(const Truth& truth, std::span<const double> got, const TensorSpec& output) {
  BadElements b;
  b.shape = fmt::format("{} of {}", output.name, to_string(output.shape));
  if (got.empty()) return b;
  b.columns = output.shape.empty() ? 1 : static_cast<std::size_t>(output.shape.back());
  b.rows = got.size() / b.columns;
  b.tile_rows = (b.rows + kMapRows - 1) / kMapRows;
  b.tile_columns = (b.columns + kMapColumns - 1) / kMapColumns;
  const std::size_t across = (b.columns + b.tile_columns - 1) / b.tile_columns;
  const std::size_t down = (b.rows + b.tile_rows - 1) / b.tile_rows;
  std::vector<std::size_t> bad(across * down);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Judged j = judge(got[i], truth.value[i], truth.limit[i]);
    if (j.ok) continue;
    if (b.first.size() < kFirstBad)
      b.first.push_back({indices(i, output), got[i], truth.value[i], truth.limit[i], j.ratio});
    ++bad[i / b.columns / b.tile_rows * across + i % b.columns / b.tile_columns];
  }
  for (std::size_t t = 0; t < bad.size(); ++t) {
    const std::size_t high = std::min(b.tile_rows, b.rows - t / across * b.tile_rows);
    const std::size_t wide = std::min(b.tile_columns, b.columns - t % across * b.tile_columns);
    // Up to 9, which only a whole tile reaches; and a single element is no 0.
    b.map +=
        static_cast<char>('0' + (bad[t] == 0 ? 0 : std::max<std::size_t>(1, 9 * bad[t] / (high * wide))));
  }
  return b;
}

namespace {

// Of elements [first, last); `ok` is left to the whole.
Comparison compare_range(const Truth& truth, std::span<const double> got, std::size_t first,
                         std::size_t last) {
  Comparison c;
  c.zeros_would_pass = c.unclaimed = true;
  for (std::size_t i = first; i < last; ++i) {
    const Judged j = judge(got[i], truth.value[i], truth.limit[i]);
    if (!j.ok) ++c.bad;
    ++c.errors[octave_of(j.ok, j.ratio)];
    if (i == first || j.ratio > c.worst_ratio) c.worst = i, c.worst_ratio = j.ratio;
    c.zeros_would_pass = c.zeros_would_pass && judge(0.0, truth.value[i], truth.limit[i]).ok;
    c.unclaimed = c.unclaimed && std::isinf(truth.limit[i]);
  }
  return c;
}

}  // namespace

Comparison compare(const Truth& truth, std::span<const double> got) {
  if (got.size() != truth.value.size() || truth.limit.size() != truth.value.size())
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("{}: {} elements judged against {} values and {} limits", truth.output,
                                 got.size(), truth.value.size(), truth.limit.size()));
  std::vector<Comparison> parts(got.size() / kParallelGrain + 1);
  parallel_ranges(got.size(), [&](std::size_t first, std::size_t last) {
    parts[first / kParallelGrain] = compare_range(truth, got, first, last);
  });
  Comparison c = parts.front();
  for (const Comparison& part : std::span(parts).subspan(1)) {
    if (part.worst == 0) continue;  // behind the last element
    c.bad += part.bad;
    for (std::size_t i = 0; i < kOctaves; ++i) c.errors[i] += part.errors[i];
    if (part.worst_ratio > c.worst_ratio) c.worst = part.worst, c.worst_ratio = part.worst_ratio;
    c.zeros_would_pass = c.zeros_would_pass && part.zeros_would_pass;
    c.unclaimed = c.unclaimed && part.unclaimed;
  }
  c.elements = got.size();
  c.ok = c.bad == 0 && c.elements > 0;
  return c;
}

std::string describe(const Truth& truth, const Comparison& c, std::span<const double> got,
                     const TensorSpec& output) {
  const std::size_t i = c.worst;
  std::string text = fmt::format("  at     {} of {}   {} of {} bad ({:.3g} %)\n", indices(i, output),
                                 to_string(output.shape), c.bad, c.elements,
                                 100.0 * static_cast<double>(c.bad) / static_cast<double>(c.elements));
  text += fmt::format("  got    {}{:.9g}    want {}{:.9g}\n", bits_of(got[i], output), got[i],
                      bits_of(truth.value[i], output), truth.value[i]);
  text += fmt::format("  error  {:.4g} = {:.4g} x limit {:.4g}  <- {}", std::fabs(got[i] - truth.value[i]),
                      c.worst_ratio, truth.limit[i], truth.limit_origin);
  return text;
}

}  // namespace assay
