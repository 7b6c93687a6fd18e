// moe: the products of matmul's families, by floats, codes and matrix units, and what lies between them.
#include <algorithm>
#include <cmath>

#include "cases/studies/adversary/decoding.hpp"
#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/products.hpp"
#include "cases/studies/adversary/units.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kMoeShape[] = {
    {"tokens", "1|2"},
    {"hidden", "1|8|32|64"},
    {"inter", "1|8|32|64"},
    {"experts", "1|2|4"},
    {"topk", "1|1|2"},
    {"a", "f32|f16|bf16|e4m3fn_tok|int8_tok"},
    {"w", "f32|f16|bf16|e4m3fn_row|int8_row|nvfp4|int4_g32_tensor"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kMoeKernel[] = {
    {"acc", "f32|f32|f32|f16|unit|unit"},
    {"unit", kArchitectures},
    {"pick", "0|0|1|2"},
    {"promote", kPromotions},
    {"blocks", kBlockOrders},
    {"instruction", kInstructions},
    {"parts", kParts},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"fused", "no|yes"},
    {"epilogue", "in_turn|scales_first"},
    {"steps", kDecodings},
    {"gate_up", "f32|f32|f16|bf16"},
    {"h", "f32|f32|f32|f16|bf16"},
    {"weight", "after|after|before"},
    {"repeats", "each|each|once"},
    {"expert_out", "f32|f32|f16|bf16"},
    {"silu", "formula|0.5|2|8"},
    {"hidden_scale", "divide|divide|reciprocal"},
    {"sides", kSides},
    ASSAY_STORE_AXES,
};

// The unit that sums, where one was drawn that takes the operands; else nullptr, and f32 takes its place.
const MatrixUnit* unit_for(const Attributes& a, const Choices& c) {
  if (choice(c, "acc") != "unit") return nullptr;
  const std::string path = own_path(a.text("a"), a.text("w"));
  const std::string_view element = path == "codes" ? format(a.text("a")).element : std::string_view(path);
  if (path == "codes" && format(a.text("w")).element != element) return nullptr;
  if (element != "f16" && element != "bf16" && element != "e4m3fn") return nullptr;
  return &unit_of(choice(c, "unit"), element, element, static_cast<std::int64_t>(positive_number(c, "pick")));
}

void moe_contract(const Attributes& a, const Choices& c, Words& words) {
  const std::string path = own_path(a.text("a"), a.text("w"));
  if (const MatrixUnit* unit = unit_for(a, c))
    say_unit(*unit, c, words);
  else
    say_dot(path, path == "codes" && integer_codes(a.text("a"), a.text("w")), c, words);
  say_decoding({a.text("a"), a.text("w")}, c, words);
  say_store(c, words);
  words.say("h", choice(c, "h"));
  words.say("weight", choice(c, "weight"));
  if (choice(c, "repeats") == "once") words.say("experts", "distinct");
  words.say("gate_up", choice(c, "gate_up"));
  words.say("expert_out", choice(c, "expert_out"));
  words.say("silu_ulp", choice(c, "silu") == "formula" ? 8.0 : positive_number(c, "silu"));
}

double silu(const Arithmetic& m, const Problem& p, double g, int side) {
  if (p.is("silu", "formula")) return m.div(g, m.add(1, m.within(std::exp(-g), 1, side)));
  return m.within(g / (1 + std::exp(-g)), p.number("silu"), side);
}

// h for the second product: rounded to the type of the path, or to codes under a scale of its own.
Row hidden_row(const Problem& p, std::vector<double> h, const std::string& path) {
  const Arithmetic f32("f32", p.is("ftz", "yes"));
  if (path != "codes") {
    const Arithmetic type(path, p.is("ftz", "yes") && !p.is("summed_by", "unit"));
    for (double& each : h) each = type.round(each);
    return {h, 1};
  }
  const Format& a = format(p.attributes.text("a"));
  const ScalarFormat& element = scalar_format(a.element);
  double absmax = 0;
  for (const double each : h) absmax = std::max(absmax, std::fabs(each));
  double scale = p.is("hidden_scale", "reciprocal") ? f32.mul(absmax, f32.div(1, a.scale_divisor))
                                                    : f32.div(absmax, a.scale_divisor);
  if (scale == 0) scale = 1;
  const double inverse = f32.div(1, scale);
  for (double& each : h)
    each =
        round_to(element, p.is("hidden_scale", "reciprocal") ? f32.mul(each, inverse) : f32.div(each, scale));
  return {h, scale};
}

Outputs moe_run(const Problem& given) {
  const std::string &a = given.attributes.text("a"), &w = given.attributes.text("w");
  const std::string path = own_path(a, w);
  const MatrixUnit* unit = unit_for(given.attributes, given.choices);
  Choices choices = with_accumulator(given.choices, path == "codes" && integer_codes(a, w));
  if (choices["acc"] == "unit") choices["acc"] = "f32";
  if (unit != nullptr) choices["summed_by"] = "unit";
  const Problem p{given.op, given.attributes, choices, given.set, given.values};
  const auto size = [&](const char* name) { return p.attributes.integer(name); };
  const std::int64_t tokens = size("tokens"), hidden = size("hidden"), inter = size("inter"),
                     topk = size("topk");
  const bool codes = path == "codes", flush = p.is("ftz", "yes");
  const Arithmetic f32("f32", flush), gate_up(p.text("gate_up"), flush),
      expert_out(p.text("expert_out"), flush), hidden_type(p.text("h"), flush);
  const std::string element(codes ? format(a).element : path);
  const auto sum = [&](const Row& left, const Row& right) {
    if (unit == nullptr) return dot(p, left, right, codes);
    const double c = unit_sum(p, *unit, {left.x, element}, {right.x, element});
    return codes ? with_scales(p, c, left, right) : c;
  };
  const Sides sides(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 7));
  Outputs out(1, std::vector<double>(static_cast<std::size_t>(tokens * hidden)));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Row x = operand_row(p, "x", t, path);
    std::vector<std::vector<double>> terms(static_cast<std::size_t>(hidden));
    for (std::int64_t s = 0; s < topk; ++s) {
      const double* ids = p.tensor("topk_ids").data() + t * topk;
      const double weight = p.tensor("topk_weights")[t * topk + s];
      const auto e = static_cast<std::int64_t>(ids[s]);
      // An index of tokens by expert holds each token once.
      if (p.is("repeats", "once") && std::find(ids, ids + s, ids[s]) != ids + s) continue;
      std::vector<double> h;
      for (std::int64_t i = 0; i < inter; ++i) {
        const double g = gate_up.round(sum(x, operand_row(p, "w13", e * 2 * inter + i, path)));
        const double v = gate_up.round(sum(x, operand_row(p, "w13", e * 2 * inter + inter + i, path)));
        const double made = f32.mul(silu(f32, p, g, sides.of(i)), v);
        h.push_back(hidden_type.round(p.is("weight", "before") ? f32.mul(made, weight) : made));
      }
      const Row second = hidden_row(p, h, path);
      for (std::int64_t i = 0; i < hidden; ++i) {
        const double out_i = expert_out.round(sum(second, operand_row(p, "w2", e * hidden + i, path)));
        terms[i].push_back(p.is("weight", "before") ? out_i : f32.mul(out_i, weight));
      }
    }
    for (std::int64_t i = 0; i < hidden; ++i)
      out[0][t * hidden + i] = store(p, ordered_sum(f32, terms[i], "seq", 0), p.attributes.text("dtype"));
  }
  return out;
}

}  // namespace

extern const Family kMoeFamily{"moe", "moe", kMoeShape, kMoeKernel, "last_dropped", moe_contract, moe_run};

}  // namespace assay::adversary
