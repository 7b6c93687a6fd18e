// quantize, requantize and kv_write: quantisers as engines write them. Scales by division or by a reciprocal, codes alike, integer
// codes that reach -128 or stop at -127, shared exponents rounded down or up.
#include <algorithm>
#include <array>
#include <cmath>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::adversary {
namespace {

#define ASSAY_QUANTISED                                                                                    \
  "int8_tensor|int8_tok|int8_head|e4m3fn_tensor|e4m3fn_tok|e4m3fn_head|e5m2_tok|int4_g32|q8_0|q4_0|mxfp4|" \
  "mxfp8|"                                                                                                 \
  "mxfp8_e5m2|e4m3fnuz_tok|int8|e4m3fn|int4_ch_tensor|int4_g32_tensor"
constexpr Axis kQuantizeShape[] = {
    {"rows", "1|2"}, {"cols", "32|64|64|256"}, {"to", ASSAY_QUANTISED}, {"dtype", "f32|f32|f16|bf16"}};
constexpr Axis kRequantizeShape[] = {{"rows", "1|2"},
                                     {"cols", "32|64|256"},
                                     {"from", "q8_0|e4m3fn_tensor|nvfp4|int8_tok|mxfp4"},
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
    {"scale", "divide|divide|reciprocal"},
    {"code", "divide|reciprocal|absmax"},
    {"say", "sharp|sharp|any"},
    {"round", "nearest_even|nearest_even|nearest_away|toward_zero"},
    {"overflow", "saturate|saturate|ieee"},
    {"integers", "full|full|symmetric"},
    {"exponent", "floor|floor|ceil|rceil"},
    {"zero_scale", "one|one|zero"},
    {"nan", "propagate|zero"},
};

bool has_two_scales(std::string_view name) { return name == "int4_ch_tensor" || name == "int4_g32_tensor"; }
bool is_block(const Attributes& a) {
  return format(a.text("to")).kind == FormatKind::block && !has_two_scales(a.text("to"));
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
  const bool sharp = choice(c, "say") == "sharp" && !(chosen && choice(c, "code") == "absmax");
  words.say("scale", sharp ? choice(c, "scale") : "any");
  if (!sharp || !words.say("code", choice(c, "code") == "absmax" ? "direct" : choice(c, "code")))
    words.say("code", "any");
  // Block formats round by their own rule; ties are what it says.
  words.say("round", is_block(a) ? "nearest_even" : choice(c, "round"));
  words.say("overflow", choice(c, "overflow"));
  words.say("nan", choice(c, "nan"));
  words.say("int_range", sharp ? choice(c, "integers") : "any");
  words.say("mx_scale", choice(c, "exponent"));
}

EncodePolicy policy_of(const Problem& p) {
  EncodePolicy policy;
  const std::string& round = p.text("round");
  policy.rounding = round == "nearest_away"  ? Rounding::nearest_away
                    : round == "toward_zero" ? Rounding::toward_zero
                                             : Rounding::nearest_even;
  policy.overflow = p.is("overflow", "saturate") ? Overflow::saturate : Overflow::ieee;
  policy.nan = p.is("nan", "zero") ? NanPolicy::zero : NanPolicy::propagate;
  return policy;
}

// A group of a scaled format under its scale.
void scaled_group(const Problem& p, const ScalarFormat& element, double divisor, double absmax, double scale,
                  std::vector<double*>& group) {
  const Arithmetic f32("f32");
  const bool integers = element.kind == ScalarKind::integer, symmetric = p.is("integers", "symmetric");
  // A reciprocal that overflows is used by no kernel that says no more than `any`.
  const double inverse = f32.div(1, scale),
               direct = divisor > 0 && absmax > 0 ? f32.div(divisor, absmax) : kInf;
  const bool by_inverse = p.is("code", "reciprocal") && (std::isfinite(inverse) || p.is("say", "sharp"));
  const bool by_absmax = p.is("code", "absmax") && divisor > 0 &&
                         (std::isfinite(direct) || (p.is("say", "sharp") && absmax > 0));
  for (double* x : group) {
    double q = by_inverse ? f32.mul(*x, inverse) : by_absmax ? f32.mul(*x, direct) : f32.div(*x, scale);
    const double least = symmetric ? -element.integer_max : -element.integer_max - 1;
    // Rounded where every integer fits, then clamped to the range that is said.
    double code =
        integers ? std::clamp(round_to(scalar_format("int8"), q, policy_of(p)), least, element.integer_max)
                 : round_to(element, q, policy_of(p));
    if (p.is("defect", "truncated") && element.kind == ScalarKind::integer) code = std::trunc(q);
    *x = code * scale;
  }
}

double dynamic_scale(const Problem& p, double absmax, double divisor) {
  const Arithmetic f32("f32");
  const double scale =
      p.is("scale", "reciprocal") ? f32.mul(absmax, f32.div(1, divisor)) : f32.div(absmax, divisor);
  return scale == 0 ? (p.is("zero_scale", "zero") && absmax == 0 ? 0 : 1) : scale;
}

double absmax_of(const std::vector<double*>& group) {
  double absmax = 0;
  for (const double* x : group)
    if (std::isfinite(*x)) absmax = std::max(absmax, std::fabs(*x));
  return absmax;
}

// ggml's q8_0 and q4_0, plain and vector code: id from the f32 scale or straight from absmax, ties away or to even.
void ggml_group(const Problem& p, std::string_view name, std::vector<double*>& group) {
  const Arithmetic f32("f32"), f16("f16");
  double extreme = 0;
  for (const double* x : group)
    if (std::fabs(*x) > std::fabs(extreme)) extreme = *x;
  const bool q8 = name == "q8_0";
  const double d = q8 ? f32.div(std::fabs(extreme), 127) : f32.div(extreme, -8);
  const double id = d == 0                   ? 0
                    : p.is("code", "absmax") ? f32.div(q8 ? 127 : -8, q8 ? std::fabs(extreme) : extreme)
                                             : f32.div(1, d);
  const double stored = f16.round(d);
  for (double* x : group) {
    const double product = f32.mul(*x, id);
    // An integer holds no NaN and no infinity: 0 * Inf converts to 0, what is beyond the codes saturates.
    const double q = std::isnan(product) ? 0 : std::clamp(product, -128.0, 127.0);
    const double code = q8 ? (p.is("round", "nearest_even") ? std::nearbyint(q) : std::round(q))
                           : std::min(15.0, std::trunc(f32.add(q, 8.5))) - 8;
    *x = (p.is("defect", "truncated") ? std::trunc(q) : code) * stored;
  }
}

// OCP MX: a shared power of two, from the exponent of absmax (floor), or so large that nothing saturates (Mishra et al. 2025).
void mx_group(const Problem& p, std::string_view name, std::vector<double*>& group) {
  const ScalarFormat& element = scalar_format(name == "mxfp4" ? "e2m1" : name == "mxfp8" ? "e4m3fn" : "e5m2");
  const double absmax = absmax_of(group);
  int e = absmax > 0 ? std::ilogb(absmax) - std::ilogb(element.max_finite) : -127;
  // ceil: the next power of two of absmax; rceil: only where the largest element would be exceeded.
  if (p.is("exponent", "rceil") && absmax > std::ldexp(element.max_finite, e)) ++e;
  if (p.is("exponent", "ceil") && absmax > std::ldexp(1.0, std::ilogb(absmax))) ++e;
  e = std::clamp(e, -127, 127);
  EncodePolicy policy = policy_of(p);
  policy.rounding = Rounding::nearest_even;
  for (double* x : group) {
    const double code = round_to(element, std::ldexp(*x, -e), policy);
    *x = std::ldexp(p.is("defect", "truncated")
                        ? round_to(element, std::ldexp(*x, -e), {.rounding = Rounding::toward_zero})
                        : code,
                    e);
  }
}

// To FP8 under one scale of the tensor, and those codes to int4 under a scale of each row or of 32.
std::vector<double> two_stages(const Problem& p, std::string_view to_name, const Shape& shape,
                               std::vector<double> x) {
  const auto stage = [&](std::string_view element, double divisor, std::vector<double*>& group) {
    const double absmax = absmax_of(group), scale = dynamic_scale(p, absmax, divisor);
    if (scale == 0)
      for (double* each : group) *each = 0;
    else
      scaled_group(p, scalar_format(element), divisor, absmax, scale, group);
    return scale;
  };
  std::vector<double*> all;
  for (double& each : x) all.push_back(&each);
  const double second = stage("e4m3fn", 448, all);
  if (second == 0) return x;
  const std::size_t size = to_name == "int4_ch_tensor" ? static_cast<std::size_t>(shape.back()) : 32;
  for (std::size_t first = 0; first < x.size(); first += size) {
    std::vector<double*> group(all.begin() + static_cast<std::ptrdiff_t>(first),
                               all.begin() + static_cast<std::ptrdiff_t>(first + size));
    for (double* each : group)
      *each /= second;  // the code: its product with the scale is exact, and so is this
    (void)stage("int4", 7, group);
    for (double* each : group) *each *= second;
  }
  return x;
}

// values (f32) -> what is stored. scales: those that the caller chose, or empty.
std::vector<double> quantised(const Problem& p, std::string_view to_name, const Shape& shape,
                              std::vector<double> x, const std::vector<double>& scales) {
  const Format& to = format(to_name);
  if (to.kind == FormatKind::scalar) {
    const ScalarFormat& element = scalar_format(to.element);
    for (double& each : x) {
      each = round_to(element, each, policy_of(p));
      if (element.kind == ScalarKind::integer && p.is("integers", "symmetric"))
        each = std::clamp(each, -element.integer_max, element.integer_max);
    }
    return x;
  }
  if (has_two_scales(to_name)) return two_stages(p, to_name, shape, std::move(x));
  const Axes axes = axes_of(shape);
  std::map<std::int64_t, std::vector<double*>> groups;
  const std::int64_t block = to.kind == FormatKind::block ? to.block_elements : 1;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i)
    groups[to.kind == FormatKind::block ? i / block : scale_index(to.axis, axes, i)].push_back(&x[i]);
  for (auto& [index, group] : groups) {
    if (to_name.starts_with("mx")) {
      mx_group(p, to_name, group);
    } else if (to.kind == FormatKind::block) {
      ggml_group(p, to_name, group);
    } else {
      const double absmax = absmax_of(group);
      const double scale = scales.empty() ? dynamic_scale(p, absmax, to.scale_divisor)
                                          : scales[static_cast<std::size_t>(index)];
      // A zero scale belongs to a group without a finite number but zero: every code but a NaN's decodes to zero.
      if (scale == 0)
        for (double* each : group)
          *each =
              std::isnan(*each) && p.is("nan", "propagate") && has_nan(scalar_format(to.element)) ? *each : 0;
      else
        scaled_group(p, scalar_format(to.element), scales.empty() ? to.scale_divisor : 0, absmax, scale,
                     group);
    }
  }
  return x;
}

Outputs quantize_run(const Problem& p) {
  return {quantised(p, p.attributes.text("to"), p.shape("x"), p.tensor("x"), {})};
}

Outputs requantize_run(const Problem& p) {
  const std::string& to = p.attributes.text("to");
  std::vector<double> x = p.tensor("x"), ones;
  for (double& each : x) each = Arithmetic("f32").round(each);
  if (p.attributes.text("scale") == "one")
    ones.assign(static_cast<std::size_t>(element_count(scale_shape(format(to), p.shape("x")))), 1.0);
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
  std::vector<double> scales(static_cast<std::size_t>(element_count(scale_shape(f, shape))), 1.0);
  if (p.has("first")) {
    std::vector<double> first = p.tensor("first"), absmax(scales.size(), 0.0);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(first.size()); ++i)
      if (std::isfinite(first[i])) {
        double& own = absmax[scale_index(f.axis, axes_of(shape), i)];
        own = std::max(own, std::fabs(first[i]));
      }
    const double divisor =
        policy == "locked" ? Arithmetic("f32").round(p.attributes.real("constant")) : f.scale_divisor;
    for (std::size_t s = 0; s < scales.size(); ++s) {
      scales[s] = dynamic_scale(p, absmax[s], divisor);
      if (scales[s] == 0) scales[s] = 1;
    }
  }
  return {quantised(p, to, shape, placed, scales)};
}

// `scale` is an attribute of requantize and a key of its contract: two things of one name.
void requantize_contract(const Attributes& a, const Choices& c, Words& words) {
  contract(a, c, words);
  words.say("roundings", "1");
}

}  // namespace

extern const Family kQuantizeFamily{"quantize",  "quantize", kQuantizeShape, kKernel,
                                    "truncated", contract,   quantize_run};
extern const Family kRequantizeFamily{"requantize", "requantize",        kRequantizeShape, kKernel,
                                      "truncated",  requantize_contract, requantize_run};
extern const Family kKvWriteFamily{"kv_write",  "kv_write", kKvWriteShape, kKernel,
                                   "truncated", contract,   kv_write_run};

}  // namespace assay::adversary
