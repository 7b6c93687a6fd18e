// Worlds of quantize and kv_write: groups whose elements lie on and beside the ties of their codes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/members_quantise.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

constexpr double kAbsmaxes[] = {
    1.0,        448.0,    0x1.fffffep+0,   0x1.234568p+3, 0x1.5p-20,      0x1.1p-126,
    0x1.8p-133, 0x1p-149, 0x1.fffffep+127, 0x1.fp+120,    0x1.abcdefp+17, 0x1.55555p-7,
    3.0,        57344.0,  0x1.c01p+15,     0x1.7p-118};

// Groups of `n`: the largest element, and elements at ties of the codes of an element format, a few units
// beside them.
std::vector<std::vector<double>> groups(std::string_view element, double divisor, int n,
                                        std::string_view dtype, std::size_t most) {
  std::vector<double> ties;
  const ScalarFormat& f = scalar_format(element);
  std::vector<double> codes;
  if (f.kind == ScalarKind::integer)
    for (double c = 0; c <= divisor; ++c) codes.push_back(c);
  else
    for (const double c : numbers(element))
      if (c >= 0) codes.push_back(c);
  for (std::size_t i = 0; i + 1 < codes.size(); ++i)
    ties.push_back((codes[i] + codes[i + 1]) / 2), ties.push_back(codes[i]);
  std::vector<std::vector<double>> all;
  const ScalarFormat& type = scalar_format(dtype);
  const std::size_t each =
      std::max<std::size_t>(1, most / std::size(kAbsmaxes) / static_cast<std::size_t>(n));
  for (const double wanted : kAbsmaxes) {
    const double absmax = round_to(type, wanted);
    if (!std::isfinite(absmax)) continue;
    std::vector<double> elements;
    for (const double tie : ties) {
      double v = round_to(type, tie * (absmax / divisor));
      if (!(std::fabs(v) <= absmax)) continue;
      const double step = std::max(std::fabs(v) * power_of_two(-type.fraction_bits),
                                   std::max(type.bits == 16 ? 0.0 : 0x1p-149, 0.0));
      for (const int off : {-2, -1, 0, 1, 2}) {
        const double w = round_to(type, v + off * step);
        if (std::fabs(w) <= absmax) elements.push_back(off % 2 == 0 ? w : -w);
      }
    }
    if (elements.empty()) elements.push_back(0);
    std::size_t at = 0;
    const std::size_t step = std::max<std::size_t>(1, elements.size() / (each * static_cast<std::size_t>(n)));
    for (std::size_t g = 0; g < each && at < elements.size(); ++g) {
      std::vector<double> group{g % 2 == 0 ? absmax : -absmax};
      for (int i = 1; i < n; ++i, at += step) group.push_back(elements[at % elements.size()]);
      all.push_back(group);
    }
  }
  return all;
}

std::vector<Batch> batches_of(const World& w, int n, std::size_t budget) {
  Quantise k;
  k.scale = declared(w, "scale");
  k.code = declared(w, "code");
  k.code_scale = declared(w, "code_scale");
  k.scale_format = declared(w, "scale_format");
  k.quotient = declared(w, "quotient");
  k.scale_ulp = std::stod(std::string(declared(w, "scale_ulp")));
  const std::string_view round = declared(w, "round");
  k.policy.rounding = round == "toward_zero"    ? Rounding::toward_zero
                      : round == "nearest_away" ? Rounding::nearest_away
                                                : Rounding::nearest_even;
  k.policy.overflow = declared(w, "overflow") == "ieee" ? Overflow::ieee : Overflow::saturate;
  k.stochastic = round == "stochastic";
  const auto word = [&](std::string_view key) {
    return has_word(w.op, key, "") ? declared(w, key) : std::string_view();
  };
  k.ties = word("ties");
  k.subnormals_zero = word("subnormals") == "zero";
  const std::string to = w.attributes.at("to");
  if (word("divisor") == "half_more") k.divisor = format(to).scale_divisor + 0.5;
  const std::string dtype = w.attributes.contains("dtype") ? w.attributes.at("dtype") : "f32";
  const Format& row = format(to);
  const bool scaled = row.kind == FormatKind::scaled;
  const std::string_view element = scaled                           ? row.element
                                   : to == "mxfp8"                  ? "e4m3fn"
                                   : to == "mxfp4" || to == "nvfp4" ? "e2m1"
                                                                    : "int8";
  const double divisor = scaled                           ? row.scale_divisor
                         : to == "mxfp8"                  ? 448
                         : to == "mxfp4" || to == "nvfp4" ? 6
                         : to == "q8_0" || to == "iq4_nl" ? 127
                         : to == "q4_1"                   ? 15
                         : to == "q5_1"                   ? 31
                         : to == "q5_0"                   ? 16
                                                          : 8;
  const auto all_groups = groups(element, divisor, n, dtype, std::min<std::size_t>(budget, 60000));
  // One group is one tensor where the tensor shares a scale, or a row.
  std::vector<Batch> all;
  const bool apart = w.op == "kv_write" || to == "nvfp4";
  const std::size_t together = apart ? 1 : all_groups.size();
  for (std::size_t first = 0; first < all_groups.size(); first += together) {
    Batch b;
    const auto count = static_cast<std::int64_t>(together);
    b.attributes = w.attributes;
    std::vector<double> x;
    for (std::size_t g = first; g < first + together; ++g) {
      x.insert(x.end(), all_groups[g].begin(), all_groups[g].end());
      for (const Set& s :
           scaled ? scaled_members(k, row, all_groups[g]) : block_members(k, to, all_groups[g]))
        b.members.push_back(s);
    }
    if (w.op == "kv_write") {
      b.attributes.insert({{"tokens", "1"}, {"heads", "1"}, {"d", std::to_string(n)}});
      const Op& the_op = op("kv_write");
      the_op.indices(Attributes::complete(the_op.attributes, b.attributes), 1, b.inputs);
      b.inputs["x"] = tensor(dtype, {1, 1, n}, x);
    } else {
      b.attributes.insert({{"rows", std::to_string(count)}, {"cols", std::to_string(n)}});
      b.inputs["x"] = tensor(dtype, {count, n}, x);
    }
    b.inputs_of = [all_groups, first, n](std::size_t i) {
      const auto& group = all_groups[first + i / static_cast<std::size_t>(n)];
      return n <= 4 ? "x=" + hex(group)
                    : fmt::format("absmax={:a} x[{}]={:a}", group[0], i % static_cast<std::size_t>(n),
                                  group[i % static_cast<std::size_t>(n)]);
    };
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace

std::vector<World> quantise_worlds() {
  std::vector<World> all;
  const auto add = [&](const char* op, int n, Words attributes, Keys contract, const char* why) {
    all.push_back(named(op, "", std::move(attributes), std::move(contract), why,
                        [n](const World& w, std::size_t budget) { return batches_of(w, n, budget); }));
  };
  for (const char* to : {"e4m3fn_tok", "e4m3fnuz_tok", "e5m2_tok", "int8_tok", "int4_ch"}) {
    for (const char* scale : {"divide", "reciprocal", "inverse", "any"})
      for (const char* code : {"divide", "reciprocal", "direct", "any"})
        add("quantize", 4, {{"to", to}}, {{"scale", scale}, {"code", code}},
            "scale: absmax / D, ...; code: x / scale, times a rounded 1 / scale, or times a rounded D / "
            "absmax");
    for (const char* format : {"f16", "bf16"}) {
      for (const char* from : {"stored", "exact", "any"})
        add("quantize", 4, {{"to", to}}, {{"scale_format", format}, {"code_scale", from}},
            "scale_format: the stored scale is rounded to this; code_scale");
      add("quantize", 4, {{"to", to}}, {{"quotient", format}},
          "quotient: rounded to this before it becomes a code");
      add("quantize", 4, {{"to", to}, {"dtype", format}}, {}, "code: x / scale, ...");
      add("quantize", 4, {{"to", to}, {"dtype", format}}, {{"scale", "any"}, {"scale_ulp", "2"}},
          "scale_ulp: units in the last place that the scale may be off");
    }
    for (const char* ulp : {"1", "2"})
      add("quantize", 4, {{"to", to}}, {{"scale_ulp", ulp}},
          "scale_ulp: units in the last place that the scale may be off");
    for (const char* round : {"nearest_away", "toward_zero"}) {
      add("quantize", 4, {{"to", to}}, {{"round", round}}, "round: to a code");
      add("quantize", 4, {{"to", to}}, {{"round", round}, {"overflow", "ieee"}, {"scale_format", "bf16"}},
          "overflow: beyond the largest code");
    }
    add("quantize", 4, {{"to", to}}, {{"overflow", "ieee"}}, "overflow: beyond the largest code");
    if (has_word("quantize", "round", "stochastic"))
      add("quantize", 4, {{"to", to}}, {{"round", "stochastic"}}, "round=stochastic: to either neighbour");
    if (has_word("quantize", "subnormals", "zero")) {
      add("quantize", 4, {{"to", to}}, {{"subnormals", "zero"}},
          "subnormals: codes below the smallest normal number: 0");
      add("quantize", 4, {{"to", to}}, {{"subnormals", "zero"}, {"scale", "any"}, {"scale_ulp", "1"}},
          "subnormals: codes below the smallest normal number: 0");
    }
    if (has_word("quantize", "divisor", "half_more") && std::string(to).starts_with("int"))
      for (const char* scale : {"divide", "any"})
        for (const char* code : {"any", "divide"})
          add("quantize", 4, {{"to", to}}, {{"divisor", "half_more"}, {"scale", scale}, {"code", code}},
              "divisor: 127.5 or 7.5");
  }
  for (const char* to :
       {"q8_0", "q4_0", "q5_0", "q4_1", "q5_1", "iq4_nl", "mxfp4", "mxfp8", "int4_g32_bf16", "nvfp4"})
    for (const char* dtype : {"f32", "f16", "bf16"}) {
      const std::string name = to;
      const int n = name == "nvfp4" ? 16 : 32;
      add("quantize", n, {{"to", to}, {"dtype", dtype}}, {}, "the format's rule");
      if (name != "iq4_nl" && name != "int4_g32_bf16")
        add("quantize", n, {{"to", to}, {"dtype", dtype}}, {{"ties", "any"}},
            "ties: the rule's code, or either");
      if (name.starts_with("q"))
        for (const char* ties : {"even", "away"})
          add("quantize", n, {{"to", to}, {"dtype", dtype}}, {{"ties", ties}},
              "ties: the even code, or that away from zero");
    }
  for (const auto& [to, policy] : {std::pair{"e4m3fn_tok", "token"},
                                   {"e4m3fn_tensor", "request"},
                                   {"e4m3fn_head", "head"},
                                   {"int8_tok", "token"}})
    for (const char* scale : {"divide", "reciprocal", "inverse", "any"})
      add("kv_write", 4, {{"to", to}, {"policy", policy}},
          {{"scale", scale}, {"scale_ulp", std::string(scale) == "any" ? "1" : "0"}},
          "scale; code; policy: of the scale");
  return all;
}

}  // namespace assay::worlds
