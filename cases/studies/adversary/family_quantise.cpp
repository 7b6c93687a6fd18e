// quantize, requantize and kv_write: quantisers as engines write them. Scales by division or by a reciprocal,
// codes alike, integer codes that reach -128 or stop at -127, shared exponents rounded down or up.
#include <algorithm>
#include <array>
#include <cmath>

#include "cases/studies/adversary/decoding.hpp"
#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/quantisers.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::adversary {
namespace {

#define ASSAY_QUANTISED                                                                                     \
  "int8_tensor|int8_tok|int8_head|e4m3fn_tensor|e4m3fn_tok|e4m3fn_head|e5m2_tok|int4_g32|q8_0|q4_0|mxfp4|"  \
  "mxfp8|mxfp8_e5m2|e4m3fnuz_tok|int8|e4m3fn|int4_ch_tensor|int4_g32_tensor|int4_g32_bf16|nvfp4|q5_0|q4_1|" \
  "q5_1|iq4_nl|mxfp4_ggml"
#define ASSAY_SEARCHED "|q3_K|q6_K|iq4_xs"
constexpr Axis kQuantizeShape[] = {{"rows", "1|2"},
                                   {"cols", "32|64|64|256"},
                                   {"to", ASSAY_QUANTISED ASSAY_SEARCHED},
                                   {"dtype", "f32|f32|f16|bf16"}};
constexpr Axis kRequantizeShape[] = {{"rows", "1|2"},
                                     {"cols", "32|64|256"},
                                     {"from", "q8_0|e4m3fn_tensor|nvfp4|int8_tok|mxfp4|int4_g32_tensor|q4_1"},
                                     {"to", ASSAY_QUANTISED},
                                     {"scale", "absmax|absmax|one"}};
constexpr Axis kKvWriteShape[] = {
    {"tokens", "1|2|4"},
    {"heads", "1|2"},
    {"d", "32|64"},
    {"to", ASSAY_QUANTISED},
    {"policy", "fixed|locked|request|token|head|calibrated"},
    {"constant", "200|100"},
    {"page", "0|0|2"},
    {"dtype", "f32|f16|bf16"},
};
constexpr Axis kKernel[] = {
    {"scale", "divide|divide|reciprocal|inverse"},
    {"divisor", "largest|largest|half_more"},
    {"scale_ulp", "0|0|0|1|2"},
    {"sides", "up|down|random"},
    {"scale_format", "f32|f32|f32|f16|bf16"},
    {"code", "divide|reciprocal|absmax|product"},
    {"code_scale", "stored|exact"},
    {"quotient", "f32|f32|f32|f16|bf16"},
    {"say", "sharp|sharp|any"},
    {"round", "nearest_even|nearest_even|nearest_away|toward_zero|stochastic"},
    {"subnormals", "keep|keep|zero"},
    {"overflow", "saturate|saturate|ieee"},
    {"integers", "full|full|symmetric"},
    {"exponent", "floor|floor|ceil|even|rceil"},
    {"zero_scale", "one|one|zero"},
    {"nan", "propagate|zero"},
    {"absmax", "finite|finite|clamped"},
};
constexpr Axis kRequantizeKernel[] = {
    kKernel[0],  kKernel[1],  kKernel[2],  kKernel[3],  kKernel[4],  kKernel[5],
    kKernel[6],  kKernel[7],  kKernel[8],  kKernel[9],  kKernel[10], kKernel[11],
    kKernel[12], kKernel[13], kKernel[14], kKernel[15], kKernel[16], {"steps", kDecodings}};

bool has_two_scales(std::string_view name) { return name == "int4_ch_tensor" || name == "int4_g32_tensor"; }
bool is_scaled_in_bf16(std::string_view name) { return name == "int4_g32_bf16" || name == "int4_g32_packed"; }
bool is_block(const Attributes& a) {
  const std::string& to = a.text("to");
  return format(to).kind == FormatKind::block && !has_two_scales(to) && !is_scaled_in_bf16(to);
}

bool op_chooses_scales(const Attributes& a) {
  const auto policy = a.all().find("policy"), scale = a.all().find("scale");
  if (scale != a.all().end()) return scale->second == "one";
  return policy != a.all().end() &&
         (policy->second == "fixed" || policy->second == "locked" || policy->second == "calibrated");
}

void contract(const Attributes& a, const Choices& c, Words& words) {
  // A scale that the caller chose has no absmax to divide by.
  const bool chosen = op_chooses_scales(a);
  const std::string& code = choice(c, "code");
  const bool sharp = choice(c, "say") == "sharp" && code != "product" && !(chosen && code == "absmax");
  const bool block = is_block(a);
  words.say("scale", sharp ? choice(c, "scale") : "any");
  if (!sharp || !words.say("code", choice(c, "code") == "absmax" ? "direct" : choice(c, "code")))
    words.say("code", "any");
  // Block formats round by their own rule; ties are what it says.
  const bool drawn = choice(c, "round") == "stochastic";
  const std::string& to = a.text("to");
  const bool says_halves =
      to.starts_with("q") || to.starts_with("iq4") || to.starts_with("tq3") || to == "mxfp4_ggml";
  const bool own = !block || (!drawn && to == "nvfp4");
  words.say("round", own ? choice(c, "round") : says_halves ? "rule" : "nearest_even");
  words.say("overflow", choice(c, "overflow"));
  words.say("nan", choice(c, "nan"));
  words.say("int_range", sharp ? choice(c, "integers") : "any");
  words.say("mx_scale", choice(c, "exponent"));
  words.say("scale_ulp", choice(c, "scale_ulp"));
  // Halves to even in q8_0, whose rule has them away from zero.
  if (a.text("to") == "q8_0") words.say("ties", choice(c, "round") == "nearest_even" ? "any" : "rule");
  if (block) return;
  words.say("divisor", choice(c, "divisor"));
  words.say("scale_format", is_scaled_in_bf16(to) ? "bf16" : choice(c, "scale_format"));
  if (sharp) words.say("code_scale", choice(c, "code_scale"));
  words.say("quotient", choice(c, "quotient"));
  words.say("subnormals", choice(c, "subnormals"));
}

// To FP8 under one scale of the tensor, and those codes to int4 under a scale of each row or of 32.
std::vector<double> two_stages(const Problem& p, std::string_view to_name, const Shape& shape,
                               std::vector<double> x) {
  const auto stage = [&](std::string_view element, double divisor, std::int64_t index, Group& group) {
    const GroupScale scale = dynamic_scale(p, absmax_of(p, group), divisor, index, p.text("scale_format"));
    if (scale.stored == 0 && scale.divisor == 0)
      for (double* each : group) *each = 0;
    else
      scaled_group(p, scalar_format(element), scale, true, group);
    return scale.stored;
  };
  Group all;
  for (double& each : x) all.push_back(&each);
  const double second = stage("e4m3fn", 448, 0, all);
  if (second == 0) return x;
  const std::size_t size = to_name == "int4_ch_tensor" ? static_cast<std::size_t>(shape.back()) : 32;
  for (std::size_t first = 0; first < x.size(); first += size) {
    Group group(all.begin() + static_cast<std::ptrdiff_t>(first),
                all.begin() + static_cast<std::ptrdiff_t>(first + size));
    for (double* each : group)
      *each /= second;  // the code: its product with the scale is exact, and so is this
    (void)stage("int4", divisor_of(p, 7), static_cast<std::int64_t>(first / size) + 1, group);
    for (double* each : group) *each *= second;
  }
  return x;
}

// values (f32) -> what is stored. scales: those that the caller chose, or empty.
std::vector<double> quantised(const Problem& p, std::string_view to_name, const Shape& shape,
                              std::vector<double> x, const std::vector<GroupScale>& scales) {
  if (is_scaled_in_bf16(to_name)) {
    Choices choices = p.choices;
    choices["scale_format"] = "bf16";
    return quantised({p.op, p.attributes, choices, p.set, p.values}, "int4_g32", shape, std::move(x), scales);
  }
  const Format& to = format(to_name);
  if (to.kind == FormatKind::scalar) {
    std::int64_t i = 0;
    for (double& each : x) each = code_of(p, scalar_format(to.element), each, i++);
    return x;
  }
  if (has_two_scales(to_name)) return two_stages(p, to_name, shape, std::move(x));
  const Axes axes = axes_of(shape);
  std::map<std::int64_t, Group> groups;
  const bool block = to.kind == FormatKind::block, whole = to_name == "nvfp4";
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i)
    groups[whole ? 0 : block ? i / to.block_elements : scale_index(to.axis, axes, i)].push_back(&x[i]);
  for (auto& [index, group] : groups) {
    if (whole) {
      quantise_nvfp4(p, group);
    } else if (block) {
      to.block->searched ? quantise_searched(p, to_name, group) : quantise_block(p, to_name, group);
    } else {
      const GroupScale scale = scales.empty()
                                   ? dynamic_scale(p, absmax_of(p, group), divisor_of(p, to.scale_divisor),
                                                   index, p.text("scale_format"))
                                   : scales[static_cast<std::size_t>(index)];
      // A zero scale belongs to a group without a finite number but zero: every code but a NaN's decodes to
      // zero.
      if (scale.stored == 0 && scale.divisor == 0)
        for (double* each : group)
          *each =
              std::isnan(*each) && p.is("nan", "propagate") && has_nan(scalar_format(to.element)) ? *each : 0;
      else
        scaled_group(p, scalar_format(to.element), scale, scales.empty(), group);
    }
  }
  return x;
}

Outputs quantize_run(const Problem& p) {
  return {quantised(p, p.attributes.text("to"), p.shape("x"), p.tensor("x"), {})};
}

Outputs requantize_run(const Problem& p) {
  const std::string& to = p.attributes.text("to");
  const Arithmetic f32("f32");
  std::vector<double> x = p.tensor("x");
  std::vector<GroupScale> ones;
  if (is_decoded_in_steps(p.attributes.text("from"), p.text("steps"))) {
    std::vector<Factors> parts(x.size());
    factors(p.set.at("x"), 0, parts);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i])) x[i] = step_by_step(f32, parts[i], p.text("steps"));
  }
  for (double& each : x) each = f32.round(each);
  if (p.attributes.text("scale") == "one")
    ones.assign(static_cast<std::size_t>(element_count(scale_shape(format(to), p.shape("x")))), {});
  return {quantised(p, to, p.shape("x"), x, ones)};
}

Outputs kv_write_run(const Problem& p) {
  const std::string &to = p.attributes.text("to"), &policy = p.attributes.text("policy");
  const Shape shape = p.shape("x");
  const std::int64_t row = shape[1] * shape[2];
  const std::vector<double>&x = p.tensor("x"), &slots = p.tensor("slots");
  std::vector<double> placed(x.size());
  for (std::int64_t t = 0; t < shape[0]; ++t)
    std::copy_n(x.begin() + t * row, row, placed.begin() + static_cast<std::int64_t>(slots[t]) * row);
  const Format& f = format(to);
  if (f.kind != FormatKind::scaled || policy == "request" || policy == "token" || policy == "head")
    return {quantised(p, to, shape, placed, {})};
  std::vector<GroupScale> scales(static_cast<std::size_t>(element_count(scale_shape(f, shape))));
  if (p.has("first")) {
    std::vector<double> first = p.tensor("first"), absmax(scales.size(), 0.0);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(first.size()); ++i)
      if (std::isfinite(first[i])) {
        double& own = absmax[scale_index(f.axis, axes_of(shape), i)];
        own = std::max(own, std::fabs(first[i]));
      }
    const double divisor = policy == "locked" ? Arithmetic("f32").round(p.attributes.real("constant"))
                                              : divisor_of(p, f.scale_divisor);
    for (std::size_t s = 0; s < scales.size(); ++s) {
      scales[s] = dynamic_scale(p, absmax[s], divisor, static_cast<std::int64_t>(s), p.text("scale_format"));
      if (absmax[s] == 0) scales[s] = {};
    }
  }
  return {quantised(p, to, shape, placed, scales)};
}

// `scale` is an attribute of requantize and a key of its contract: two things of one name.
void requantize_contract(const Attributes& a, const Choices& c, Words& words) {
  contract(a, c, words);
  const std::string &from = a.text("from"), &steps = choice(c, "steps");
  words.say("roundings", is_decoded_in_steps(from, steps) ? roundings_of(steps, from) : 1);
}

}  // namespace

extern const Family kQuantizeFamily{"quantize",  "quantize", kQuantizeShape, kKernel,
                                    "truncated", contract,   quantize_run};
extern const Family kRequantizeFamily{"requantize", "requantize",        kRequantizeShape, kRequantizeKernel,
                                      "truncated",  requantize_contract, requantize_run};
extern const Family kKvWriteFamily{"kv_write",  "kv_write", kKvWriteShape, kKernel,
                                   "truncated", contract,   kv_write_run};

}  // namespace assay::adversary
