#include "cases/studies/adversary/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "reference/error.hpp"

namespace assay::adversary {
namespace {

// Block scales come with whole blocks alone.
std::int64_t instruction_of(const MatrixUnit& unit, const Choices& c) {
  const std::string_view word = choice(c, "instruction");
  if (word == "whole" || unit.scale_block > 0) return unit.group;
  return std::min<std::int64_t>(unit.group, static_cast<std::int64_t>(positive_number(c, "instruction")));
}

class UnitSum {
 public:
  UnitSum(const Problem& p, const MatrixUnit& unit, const UnitOperand& a, const UnitOperand& b)
      : p_(p), unit_(unit), a_(a), b_(b), flush_(p.is("ftz", "yes")), f32_("f32", flush_) {}

  double operator()() const {
    const std::size_t n = a_.x.size(), group = static_cast<std::size_t>(unit_.group);
    // What is permuted: single products, or with block scales whole blocks of the unit.
    const std::size_t piece = unit_.scale_block > 0 ? group : 1;
    std::vector<std::size_t> pieces((n + piece - 1) / piece), order;
    std::iota(pieces.begin(), pieces.end(), std::size_t{0});
    if (p_.is("blocks", "rev")) std::ranges::reverse(pieces);
    Draw draw(p_.seed());
    if (p_.is("blocks", "perm"))
      for (std::size_t i = pieces.size(); i > 1; --i)
        std::swap(pieces[i - 1], pieces[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i)))]);
    for (const std::size_t each : pieces)
      for (std::size_t i = each * piece; i < std::min(n, (each + 1) * piece); ++i) order.push_back(i);
    if (p_.is("defect", "last_dropped")) order.pop_back();
    // Parts of nearly one length, which end anywhere but inside of a scaled block.
    const std::size_t units = (order.size() + piece - 1) / piece;
    const std::size_t parts = std::max<std::size_t>(
        1, p_.is("parts", "all") ? units : std::min(units, static_cast<std::size_t>(p_.number("parts"))));
    const Arithmetic register_type(unit_.out == "f16" && p_.is("promote", "0") ? "f16" : "f32", flush_);
    double total = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t first = units * i / parts * piece,
                        last = std::min(order.size(), units * (i + 1) / parts * piece);
      const double own = part(std::span(order).subspan(first, last - first));
      total = i == 0 ? own : register_type.add(total, own);
    }
    return total;
  }

 private:
  // Instructions from c on; under ftz what they leave in the register may be flushed.
  double chain(std::span<const std::size_t> order, double c) const {
    const auto step = static_cast<std::size_t>(instruction_of(unit_, p_.choices));
    for (std::size_t at = 0; at < order.size(); at += step) {
      std::vector<float> x, y, x_scales, y_scales;
      for (std::size_t i = at; i < std::min(order.size(), at + step); ++i) {
        x.push_back(static_cast<float>(a_.x[order[i]])), y.push_back(static_cast<float>(b_.x[order[i]]));
        if (unit_.scale_block > 0 && (i - at) % static_cast<std::size_t>(unit_.scale_block) == 0) {
          const std::size_t block = order[i] / static_cast<std::size_t>(unit_.scale_block);
          x_scales.push_back(a_.scales[block]), y_scales.push_back(b_.scales[block]);
        }
      }
      c = f32_.read(fused_dot(unit_, {x, a_.format, x_scales}, {y, b_.format, y_scales}, c));
    }
    return c;
  }

  // One part: a chain, or chains of `promote` blocks of the unit each, added in f32.
  double part(std::span<const std::size_t> order) const {
    const std::size_t chunk = static_cast<std::size_t>(instruction_of(unit_, p_.choices)) *
                              static_cast<std::size_t>(p_.number("promote"));
    if (chunk == 0) return chain(order, 0);
    double total = 0;
    for (std::size_t at = 0; at < order.size(); at += chunk)
      total = f32_.add(total, chain(order.subspan(at, std::min(chunk, order.size() - at)), 0));
    return total;
  }

  const Problem& p_;
  const MatrixUnit& unit_;
  const UnitOperand &a_, &b_;
  bool flush_;
  Arithmetic f32_;
};

}  // namespace

double unit_sum(const Problem& p, const MatrixUnit& unit, const UnitOperand& a, const UnitOperand& b) {
  return UnitSum(p, unit, a, b)();
}

void say_unit(const MatrixUnit& unit, const Choices& c, Words& words) {
  const bool sharp = choice(c, "say") == "sharp";
  const std::int64_t instruction = instruction_of(unit, c);
  const bool whole = instruction == unit.group && choice(c, "parts") == "1";
  const bool told = sharp && whole && choice(c, "blocks") == "seq";
  words.say("acc", unit.name);
  words.say("promote", choice(c, "promote"));
  words.say("order", told ? "sequential" : "any");
  if (sharp && !told) {
    words.say("block", fmt::format("{}", instruction));
    words.say("split", choice(c, "parts") == "all" ? "0" : choice(c, "parts"));
  }
}

const MatrixUnit& unit_of(std::string_view architecture, std::string_view a_format, std::string_view b_format,
                          std::int64_t pick, std::string_view scales) {
  for (const std::string& prefix : {std::string(architecture) + "_", std::string("hopper_"), std::string()}) {
    std::vector<const MatrixUnit*> fitting;
    for (const MatrixUnit& unit : matrix_units())
      if (unit.name.starts_with(prefix) && unit.scales == scales && unit.combine != Combine::wrap &&
          accepts(unit, a_format) && accepts(unit, b_format))
        fitting.push_back(&unit);
    if (!fitting.empty()) return *fitting[static_cast<std::size_t>(pick) % fitting.size()];
  }
  throw InputError(InputErrorKind::bad_value,
                   "no matrix unit takes " + std::string(a_format) + " by " + std::string(b_format));
}

double unit_dot(const MatrixUnit& unit, std::span<const double> x, std::string_view x_format,
                std::span<const double> y, std::string_view y_format, double c) {
  const std::vector<float> a(x.begin(), x.end()), b(y.begin(), y.end());  // numbers of the formats: exact
  return fused_dot(unit, {a, x_format}, {b, y_format}, c);
}

}  // namespace assay::adversary
