// Clipping: a request beyond the range of a scale that an earlier one locked, and the scale made anew from
// it.
#include <algorithm>
#include <cmath>

#include "cases/studies/properties/families.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::property_families {
namespace {

using properties::a_case;
using properties::accused;
using properties::elements;

// x beyond the range by so much: half of it, its end, a code's width, then more and more.
constexpr const char* kTimes[] = {"0.5", "1", "1.0625", "2", "8", "1000", "1e30"};
constexpr const char* kConstants[] = {"200", "100", "448"};

std::string line_of(const Step& s, std::string_view policy) {
  return fmt::format("kv_write tokens={} heads={} d={} to={} policy={} constant={} dtype=f32 seed={}",
                     s.integer("tokens", 1, 64), s.integer("heads", 1, 16), s.integer("d", 1, 256),
                     s.text("to"), policy, s.text("constant"), s.integer("seed", 1, 1'000'000));
}

float largest(std::span<const float> x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::fabs(v));
  return most;
}

// Half of the widest distance between two codes that are neighbours.
double half_step(const ScalarFormat& f) {
  if (f.kind == ScalarKind::integer) return 0.5;
  std::vector<double> codes;
  for (const double v : decode_table(f))
    if (std::isfinite(v)) codes.push_back(v);
  std::ranges::sort(codes);
  double widest = 0;
  for (std::size_t i = 1; i < codes.size(); ++i) widest = std::max(widest, codes[i] - codes[i - 1]);
  return widest / 2;
}

// A stored cache beside what was written to it.
struct Stored {
  const Encoded& cache;
  const Format& format;
  std::vector<double> numbers;
  std::span<const std::int32_t> slots;
  std::span<const float> x;

  std::size_t row() const { return x.size() / slots.size(); }
  std::size_t place(std::size_t i) const {
    return static_cast<std::size_t>(slots[i / row()]) * row() + i % row();
  }
  double scale(std::size_t i) const {
    return stored_scale(cache, format, static_cast<std::int64_t>(place(i)));
  }
};

// A number at or beyond the largest code times its scale is that code, of its own sign: an integer's lower
// end may be one more.
Verdict clipped_at_its_end(const Stored& s, const std::string& line) {
  const double most = s.format.scale_divisor;
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    const double y = s.numbers[s.place(i)], scale = s.scale(i), x = s.x[i];
    if (!(std::fabs(x) >= most * scale)) continue;
    const double code = y / scale;  // exact: y is a code times it
    const bool integer = scalar_format(s.format.element).kind == ScalarKind::integer;
    const bool ok = code == std::copysign(most, x) || (integer && x < 0 && code == -most - 1);
    if (!ok)
      return Broken{
          fmt::format("x={:.9g} is beyond the range of the scale {:.9g} and came back as {:.9g}: the last "
                      "code of its sign is {:.9g}",
                      x, scale, y, std::copysign(most * scale, x)),
          line};
  }
  return std::nullopt;
}

// Under a scale s that was made of the very numbers: what is beyond D s is so by the rounding of s alone, to
// 16 bits at most (2^-8 of it), and all else is off by half a step of the codes and the rounding of its
// quotient, D 2^-23 at most.
Verdict recovered(const Stored& s, const std::string& line) {
  const double step = half_step(scalar_format(s.format.element));
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    const double y = s.numbers[s.place(i)], x = s.x[i], scale = s.scale(i);
    const double most = s.format.scale_divisor * scale, beyond = std::max(0.0, std::fabs(x) - most);
    const double allowed = std::min(beyond, most * 0x1p-8) + step * scale + most * 0x1p-23;
    const bool ok = std::fabs(y - x) <= allowed;
    if (!ok)
      return Broken{
          fmt::format(
              "under a scale made of these very numbers x={:.9g} came back as {:.9g}, off by more than "
              "{:.3g}",
              x, y, allowed),
          line};
  }
  return std::nullopt;
}

}  // namespace

Draws draw_clip(Subject& subject, std::uint64_t) {
  std::vector<std::string> lines;
  for (const char* policy : {"locked", "calibrated"})
    for (const Format& f : formats())
      if (f.kind == FormatKind::scaled && (f.axis == ScaleAxis::tensor || f.axis == ScaleAxis::head))
        lines.push_back(
            fmt::format("kv_write tokens=2 heads=2 d=32 to={} policy={} dtype=f32", f.name, policy));
  const auto kinds = taken(subject, lines);
  return always(rc::gen::exec([kinds] {
    const Case kind = a_case(one_of(kinds));
    return Steps{{"clip",
                  {{"to", kind.attributes.text("to")},
                   {"policy", kind.attributes.text("policy")},
                   {"constant", one_of(kConstants)},
                   {"tokens", number(drawn(1, 6))},
                   {"heads", number(drawn(1, 4))},
                   {"d", number(2 * drawn(1, 32))},
                   {"times", one_of(kTimes)},
                   {"seed", number(drawn(1, 1000))}}}};
  }));
}

Verdict check_clip(Subject& subject, const Steps& steps) {
  const Step& s = only(steps, "clip");
  const std::string& policy = s.text("policy");
  if (policy != "locked" && policy != "calibrated")
    throw InputError(InputErrorKind::bad_value,
                     "clip policy=" + policy + ": locked or calibrated is allowed");
  const Case early = a_case(line_of(s, policy)), renewed = a_case(line_of(s, "calibrated"));
  const Format& to = format(s.text("to"));
  Inputs inputs = make_inputs(early, input_lists());
  const double range = policy == "locked" ? largest(elements<float>(inputs.set, "first")) /
                                                early.attributes.real("constant") * to.scale_divisor
                                          : largest(elements<float>(inputs.set, "first"));
  const auto x = elements<float>(inputs.set, "x");
  const double factor = s.real("times", 1e-6, 1e30) * range / largest(x);
  for (float& v : x) v = static_cast<float>(v * factor);
  for (const Case* c : {&early, &renewed}) {
    if (c == &renewed) inputs.set.at("first") = inputs.set.at("x");
    const auto [result, outputs] = subject.judged(*c, inputs);
    if (auto broken = accused(result)) return broken;
    const Encoded& cache = outputs.at("cache");
    const Stored stored{cache, to, decode_tensor(cache), elements<std::int32_t>(inputs.set, "slots"), x};
    if (auto broken = clipped_at_its_end(stored, c->line())) return broken;
    if (c == &renewed)
      if (auto broken = recovered(stored, c->line())) return broken;
  }
  return std::nullopt;
}

}  // namespace assay::property_families
