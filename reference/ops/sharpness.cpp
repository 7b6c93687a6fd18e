#include "reference/ops/sharpness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/formats/scalar.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

// Of a scalar format of floating numbers; 0 for codes that a scale multiplies.
double least_normal(std::string_view output, std::span<const TensorSpec> tensors) {
  const auto spec = std::ranges::find(tensors, output, &TensorSpec::name);
  const ScalarFormat* format = spec == tensors.end() ? nullptr : find_scalar_format(spec->format);
  return format != nullptr && format->kind == ScalarKind::floating ? smallest_normal(*format) : 0;
}

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kPart = std::size_t{1} << 20;  // elements that are counted together

// limit / |value| of the elements that show something.
class Ratios {
 public:
  Ratios(const Truth& truth, double least) : truth_(truth), least_(least) {}
  std::size_t elements() const { return truth_.value.size(); }
  std::size_t parts() const { return (elements() + kPart - 1) / kPart; }

  // see(ratio, claimed) of part p; returns whether anything is claimed there.
  template <typename See>
  bool each(std::size_t p, const See& see) const {
    bool claims = false;
    for (std::size_t i = p * kPart; i < std::min(elements(), (p + 1) * kPart); ++i) {
      const double value = truth_.value[i], limit = truth_.limit[i];
      const bool claimed = limit < kNever;
      claims = claims || claimed;
      if (claimed && (value == 0 || std::fabs(value) < least_ || !std::isfinite(value))) continue;
      see(claimed ? limit / std::fabs(value) : kNever, claimed);
    }
    return claims;
  }

 private:
  const Truth& truth_;
  double least_;
};

// What a part adds. Doubles of one sign are ordered as their bits: they are counted by their first 16.
struct Counted {
  std::vector<std::uint32_t> heads = std::vector<std::uint32_t>(std::size_t{1} << 16);
  std::size_t elements = 0;
  bool claims = false;
  double some = kNever, loosest = 0;
};
std::uint64_t head(double x) { return std::bit_cast<std::uint64_t>(x) >> 48; }

Sharpness of_parts(const Ratios& ratios) {
  std::vector<Counted> parts(ratios.parts());
  parallel_units(parts.size(), [&](std::size_t p) {
    Counted& c = parts[p];
    c.claims = ratios.each(p, [&](double ratio, bool claimed) {
      ++c.heads[head(ratio)], ++c.elements;
      c.some = std::min(c.some, ratio);
      if (claimed) c.loosest = std::max(c.loosest, ratio);
    });
  });
  Counted all;
  std::vector<std::size_t> heads(all.heads.size());
  for (const Counted& part : parts) {
    for (std::size_t h = 0; h < heads.size(); ++h) heads[h] += part.heads[h];
    all.elements += part.elements;
    all.claims = all.claims || part.claims;
    all.some = std::min(all.some, part.some);
    all.loosest = std::max(all.loosest, part.loosest);
  }
  if (all.elements == 0) return all.claims ? Sharpness{0, 0, 0, 0} : Sharpness{};
  std::size_t rank = (all.elements - 1) / 2, middle = 0;
  while (rank >= heads[middle]) rank -= heads[middle++];
  std::vector<std::vector<double>> near(parts.size());  // those that share their first bits with the middle
  parallel_units(parts.size(), [&](std::size_t p) {
    ratios.each(p, [&](double ratio, bool) {
      if (head(ratio) == middle) near[p].push_back(ratio);
    });
  });
  std::vector<double> candidates;
  for (const std::vector<double>& part : near) candidates.insert(candidates.end(), part.begin(), part.end());
  const auto at = candidates.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(candidates.begin(), at, candidates.end());
  return {all.elements, all.some, *at, all.some < kNever ? all.loosest : kNever};
}

Sharpness sharpness_of(const Truth& truth, double least) {
  const Ratios ratios(truth, least);
  if (ratios.parts() > 1) return of_parts(ratios);
  std::vector<double> list;
  double some = kNever, loosest = 0;
  list.reserve(ratios.elements());
  const bool claims = ratios.each(0, [&](double ratio, bool claimed) {
    list.push_back(ratio);
    some = std::min(some, ratio);
    if (claimed) loosest = std::max(loosest, ratio);
  });
  if (list.empty()) return claims ? Sharpness{0, 0, 0, 0} : Sharpness{};
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>((list.size() - 1) / 2);
  std::nth_element(list.begin(), middle, list.end());
  return {list.size(), some, *middle, some < kNever ? loosest : kNever};
}

}  // namespace

std::string percent(double ratio, std::string_view never) {
  return std::isfinite(ratio) ? fmt::format("{:.3g} %", 100 * ratio) : std::string(never);
}

Sharpness sharpness(std::span<const Truth> truths, std::span<const TensorSpec> tensors) {
  if (truths.empty()) return {};
  const auto of = [&](const Truth& t) { return sharpness_of(t, least_normal(t.output, tensors)); };
  Sharpness least = of(truths.front());
  for (const Truth& truth : truths.subspan(1)) {
    const Sharpness s = of(truth);
    least = {least.elements + s.elements, std::max(least.some, s.some), std::max(least.half, s.half),
             std::max(least.loosest, s.loosest)};
  }
  return least;
}

}  // namespace assay
