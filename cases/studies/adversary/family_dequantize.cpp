// dequantize, by roundings that are drawn adversely or step by step.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "cases/studies/adversary/decoding.hpp"
#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"
#include "reference/formats/format.hpp"
#include "reference/formats/rotation.hpp"
#include "reference/formats/tq3.hpp"

namespace assay::adversary {

// Code and scales, each brought into the type and multiplied in some order; a product with the minimum is
// taken away. At most four roundings of each product: into the type, a reciprocal or a second scale, two
// products, a difference.
double step_by_step(const Arithmetic& m, const Factors& f, std::string_view steps) {
  const double code = m.round(f.code), scale = m.round(f.scale),
               second = f.divides ? m.div(1, m.round(f.second)) : m.round(f.second);
  const double product = steps == "left"    ? m.mul(m.mul(code, scale), second)
                         : steps == "right" ? m.mul(code, m.mul(scale, second))
                                            : m.mul(m.mul(code, second), scale);
  if (f.minimum == 0) return product;
  return m.sub(product, m.mul(m.round(f.minimum_scale), m.round(f.minimum)));
}

bool is_decoded_in_steps(std::string_view format_name, std::string_view steps) {
  return steps != "none" && format(format_name).kind != FormatKind::scalar && !format_name.starts_with("tq3");
}

double roundings_of(std::string_view steps, std::string_view name, std::string_view mid) {
  if (steps == "none") return 1;
  const bool f16_scales = name.starts_with("q") && mid == "f16";  // they are numbers of the type
  if (name.starts_with("nvfp4")) return (steps == "left" ? 2 : 3) + (mid == "f32" ? 0 : 1);
  if (name == "int4_g32_tensor" || name == "int4_ch_tensor") return mid == "f32" ? 2 : 4;
  const double steps_of = name == "q2_K" || name == "q4_K" || name == "q5_K" ? 3
                          : name == "q4_1" || name == "q5_1"                 ? 2
                          : name.ends_with("_K") || name == "iq4_xs"         ? 2
                                                                             : 1;
  return steps_of + (mid == "f32" || f16_scales ? 0 : 1);
}

namespace {

bool is_rotated_in_steps(std::string_view steps) { return steps.starts_with("rotate"); }

constexpr Axis kDequantizeShape[] = {
    {"rows", "1|2"},
    {"cols", "64|256"},
    {"from",
     "q8_0|q4_0|q4_1|q5_1|nvfp4|mxfp4|mxfp8|e4m3fn_tensor|e4m3fn_tok|int8_tok|int4_g32|f16|bf16|e5m2|tq3_0_"
     "c2|tq3_0_c2s1|nvfp4|int4_g32_tensor|int4_ch_tensor|q2_K|q4_K|q6_K|mxfp4_ggml"},
    {"dtype", "f32|f16|bf16"},
};
constexpr Axis kDequantizeKernel[] = {
    {"mid", "f32|f32|f16|bf16"},
    {"roundings", "1|1|2|3"},
    {"scale_format", "f32|f32|f32|f16|bf16"},
    {"steps", "none|none|left|right|first_last|rotate|rotate_scale"},
    {"sides", "up|down|random"},
    {"way", "saturates|saturates|stays"},
    ASSAY_STORE_AXES,
};

void dequantize_contract(const Attributes& a, const Choices& c, Words& words) {
  words.say("mid", choice(c, "mid"));
  words.say("scale_format", choice(c, "scale_format"));
  const std::string& from = a.text("from");
  words.say("roundings", is_decoded_in_steps(from, choice(c, "steps"))
                             ? roundings_of(choice(c, "steps"), from, choice(c, "mid"))
                         : is_rotated_in_steps(choice(c, "steps")) ? 7  // a factor, a product, five additions
                                                                   : positive_number(c, "roundings"));
  say_store(c, words);
}

// tq3_0: its terms in the type, rounded once or as level times a rounded d / sqrt(32), and their transform by
// a butterfly.
std::vector<double> rotated_back(const Arithmetic& m, const Encoded& tensor, bool scale_first) {
  std::vector<double> x(static_cast<std::size_t>(element_count(tensor.shape)));
  decode_range_rotated(tensor, 0, x);
  const auto layout = std::ranges::find(tq3_layouts(), tensor.format, &Tq3Layout::name);
  const double root = std::sqrt(32.0);
  for (std::size_t first = 0; first < x.size(); first += 32) {
    const std::span<double> block = std::span(x).subspan(first, 32);
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.planes[0].bytes.data() + first / 32 * layout->bytes + layout->scale_offset, 2);
    const double d = decode(scalar_format("f16"), bits);
    for (double& each : block)
      each = scale_first && d != 0 ? m.mul(m.round(each / d), m.round(d / root)) : m.round(each / root);
    for (std::size_t h = 1; h < 32; h *= 2)
      for (std::size_t i = 0; i < 32; ++i) {
        if ((i & h) != 0) continue;
        const double a = block[i], b = block[i + h];
        block[i] = m.add(a, b), block[i + h] = m.sub(a, b);
      }
    apply_signs(block, std::span(&kTq3Signs, 1));
  }
  return x;
}

// k roundings: k - 1 that each move the number by its last half unit in the adverse direction, and one to
// nearest.
Outputs dequantize_run(const Problem& p) {
  const Arithmetic m(p.text("mid"), p.is("ftz", "yes"));
  const Sides sides(p.text("sides"), p.seed(), 0);
  const bool scalar = format(p.attributes.text("from")).kind == FormatKind::scalar;
  Outputs out(1);
  std::int64_t i = 0;
  const bool steps = is_decoded_in_steps(p.attributes.text("from"), p.text("steps"));
  const std::string& narrow = p.text("scale_format");
  // "an f32 scale is rounded to this before it multiplies, both of two"
  const bool has_wide_scale = std::ranges::any_of(p.set.at("x").planes, [](const Plane& plane) {
    return plane.spec.suffix.starts_with(".scale") && plane.spec.format == "f32";
  });
  const bool rounds_scale = (narrow == "f16" || narrow == "bf16") && has_wide_scale;
  std::vector<Factors> parts(steps || rounds_scale ? p.tensor("x").size() : 0);
  if (!parts.empty()) factors(p.set.at("x"), 0, parts);
  if (rounds_scale)
    for (Factors& each : parts)
      each.scale = Arithmetic(narrow).round(each.scale), each.second = Arithmetic(narrow).round(each.second);
  const bool rotates = is_rotated_in_steps(p.text("steps")) && p.attributes.text("from").starts_with("tq3");
  const std::vector<double> rotated =
      rotates ? rotated_back(m, p.set.at("x"), p.is("steps", "rotate_scale")) : std::vector<double>();
  for (double x : p.tensor("x")) {
    const int side = sides.of(i++);
    if (rounds_scale && std::isfinite(x))
      x = parts[static_cast<std::size_t>(i - 1)].code * parts[static_cast<std::size_t>(i - 1)].scale *
          parts[static_cast<std::size_t>(i - 1)].second;
    if (rotates) {
      x = rotated[static_cast<std::size_t>(i - 1)];
    } else if (steps && std::isfinite(x)) {
      x = step_by_step(m, parts[static_cast<std::size_t>(i - 1)], p.text("steps"));
    } else if (std::isfinite(x) && !scalar) {
      for (int k = 1; k < static_cast<int>(p.number("roundings")); ++k)
        if (std::fabs(x) > 4 * m.least_normal() && std::fabs(x) < m.largest() / 2)
          x *= 1 + side * m.unit() * (1 - 0x1p-20);
      x = m.round(x);
    }
    if (p.is("defect", "coarse")) x = Arithmetic("bf16").round(x) * (1 + 0x1p-7);
    out[0].push_back(store(p, m.read(x), p.attributes.text("dtype")));
  }
  return out;
}

}  // namespace

extern const Family kDequantizeFamily{"dequantize", "dequantize",        kDequantizeShape, kDequantizeKernel,
                                      "coarse",     dequantize_contract, dequantize_run};

}  // namespace assay::adversary
