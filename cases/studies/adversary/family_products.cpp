// matmul and moe: dot products in every order, in f32 or narrower, of decoded operands or of codes with their scales after.
#include <algorithm>
#include <array>
#include <cmath>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/products.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::adversary {

Row operand_row(const Problem& p, const std::string& name, std::int64_t index, std::string_view path) {
  const Encoded& tensor = p.set.at(name);
  const std::int64_t n = tensor.shape.back();
  const double* first = p.tensor(name).data() + index * n;
  Row row{{first, first + n}, 1};
  const bool flush = p.is("ftz", "yes");
  if (path == "codes") {
    const Format& f = format(tensor.format);
    if (f.kind == FormatKind::scaled) {
      row.scale = static_cast<double>(stored_scale(tensor, f, index * n));
      for (double& each : row.x)
        each /= row.scale;  // the code: its product with the scale is exact, and so is this
    }
    return row;
  }
  const Arithmetic f32("f32", flush), type(path, flush);
  for (double& each : row.x) each = type.round(f32.round(each));
  return row;
}

std::string own_path(const std::string& a, const std::string& b) {
  const auto codes = [](const std::string& name) {
    const Format& f = format(name);
    return f.kind == FormatKind::scaled && f.axis != ScaleAxis::channel && f.axis != ScaleAxis::group32;
  };
  if (codes(a) && codes(b)) return "codes";
  for (const std::string& each : {a, b})
    if (each == "f16" || each == "bf16") return each;
  return "f32";
}
bool integer_codes(const std::string& a, const std::string& b) {
  return a.starts_with("int") && b.starts_with("int");
}

double dot(const Problem& p, const Row& a, const Row& b, bool codes) {
  const bool flush = p.is("ftz", "yes");
  const Arithmetic acc(p.is("acc", "i32") ? "f64" : p.text("acc"), flush), f32("f32", flush);
  std::vector<double> left = a.x;
  if (p.is("defect", "last_dropped")) left.back() = 0;
  const double sum = ordered_sum(acc, left, b.x, p.text("sum"), p.is("fused", "yes"), p.seed());
  if (!codes) return sum;
  const double c = f32.round(sum);
  return p.is("epilogue", "scales_first") ? f32.mul(c, f32.mul(a.scale, b.scale))
                                          : f32.mul(f32.mul(c, a.scale), b.scale);
}

void say_dot(const std::string& path, bool integers, const Choices& c, Words& words) {
  words.say("acc", path == "codes" && integers ? "i32" : choice(c, "acc"));
  words.say("order", order_word(choice(c, "sum"), choice(c, "say") == "sharp"));
  say_store(c, words);
}

namespace {

constexpr Axis kMatmulShape[] = {
    {"m", "1|2"},
    {"n", "1|4"},
    {"k", "1|2|3|8|17|64|64|256|1024|4096"},
    {"a", "f32|f16|bf16|e4m3fn_tok|int8_tok"},
    {"b", "f32|f16|bf16|e4m3fn_tok|int8_tok|q8_0|int4_g32|int4_g32_bf16|int4_g32_packed"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kMatmulKernel[] = {
    {"acc", "f32|f32|f32|f16|bf16"},      {"sum", kSums},
    {"say", "any|sharp|sharp"},           {"fused", "no|yes"},
    {"epilogue", "in_turn|scales_first"}, {kStoreAxes[0][0], kStoreAxes[0][1]},
    {kStoreAxes[1][0], kStoreAxes[1][1]}, {kStoreAxes[2][0], kStoreAxes[2][1]},
    {kStoreAxes[3][0], kStoreAxes[3][1]},
};

// Integer codes are summed in i32, whatever was drawn.
Choices with_accumulator(const Choices& c, bool integers) {
  Choices own = c;
  if (integers) own["acc"] = "i32";
  return own;
}

void matmul_contract(const Attributes& a, const Choices& c, Words& words) {
  const bool integers =
      integer_codes(a.text("a"), a.text("b")) && own_path(a.text("a"), a.text("b")) == "codes";
  say_dot(own_path(a.text("a"), a.text("b")), integers, c, words);
}

Outputs matmul_run(const Problem& given) {
  const std::string &a = given.attributes.text("a"), &b = given.attributes.text("b");
  const std::string path = own_path(a, b);
  const Choices choices = with_accumulator(given.choices, path == "codes" && integer_codes(a, b));
  const Problem p{given.op, given.attributes, choices, given.set, given.values};
  const std::int64_t m = p.attributes.integer("m"), n = p.attributes.integer("n");
  Outputs out(1, std::vector<double>(static_cast<std::size_t>(m * n)));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      out[0][i * n + j] =
          store(p, dot(p, operand_row(p, "a", i, path), operand_row(p, "b", j, path), path == "codes"),
                p.attributes.text("dtype"));
  return out;
}

constexpr Axis kMoeShape[] = {
    {"tokens", "1|2"},
    {"hidden", "1|8|32|64"},
    {"inter", "1|8|32|64"},
    {"experts", "1|2|4"},
    {"topk", "1|1|2"},
    {"a", "f32|f16|bf16|e4m3fn_tok|int8_tok"},
    {"w", "f32|f16|bf16|e4m3fn_row|int8_row"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kMoeKernel[] = {
    {"acc", "f32|f32|f32|f16"},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"fused", "no|yes"},
    {"epilogue", "in_turn|scales_first"},
    {"gate_up", "f32|f32|f16|bf16"},
    {"expert_out", "f32|f32|f16|bf16"},
    {"silu", "formula|0.5|2|8"},
    {"hidden_scale", "divide|divide|reciprocal"},
    {"sides", kSides},
    {kStoreAxes[0][0], kStoreAxes[0][1]},
    {kStoreAxes[1][0], kStoreAxes[1][1]},
    {kStoreAxes[2][0], kStoreAxes[2][1]},
    {kStoreAxes[3][0], kStoreAxes[3][1]},
};

void moe_contract(const Attributes& a, const Choices& c, Words& words) {
  const std::string path = own_path(a.text("a"), a.text("w"));
  say_dot(path, path == "codes" && integer_codes(a.text("a"), a.text("w")), c, words);
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
    const Arithmetic type(path, p.is("ftz", "yes"));
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
  const Choices choices = with_accumulator(given.choices, path == "codes" && integer_codes(a, w));
  const Problem p{given.op, given.attributes, choices, given.set, given.values};
  const auto size = [&](const char* name) { return p.attributes.integer(name); };
  const std::int64_t tokens = size("tokens"), hidden = size("hidden"), inter = size("inter"),
                     topk = size("topk");
  const bool codes = path == "codes", flush = p.is("ftz", "yes");
  const Arithmetic f32("f32", flush), gate_up(p.text("gate_up"), flush),
      expert_out(p.text("expert_out"), flush);
  const Sides sides(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 7));
  Outputs out(1, std::vector<double>(static_cast<std::size_t>(tokens * hidden)));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Row x = operand_row(p, "x", t, path);
    std::vector<std::vector<double>> terms(static_cast<std::size_t>(hidden));
    for (std::int64_t s = 0; s < topk; ++s) {
      const auto e = static_cast<std::int64_t>(p.tensor("topk_ids")[t * topk + s]);
      std::vector<double> h;
      for (std::int64_t i = 0; i < inter; ++i) {
        const double g = gate_up.round(dot(p, x, operand_row(p, "w13", e * 2 * inter + i, path), codes));
        const double v =
            gate_up.round(dot(p, x, operand_row(p, "w13", e * 2 * inter + inter + i, path), codes));
        h.push_back(f32.mul(silu(f32, p, g, sides.of(i)), v));
      }
      const Row second = hidden_row(p, h, path);
      for (std::int64_t i = 0; i < hidden; ++i)
        terms[i].push_back(
            f32.mul(expert_out.round(dot(p, second, operand_row(p, "w2", e * hidden + i, path), codes)),
                    p.tensor("topk_weights")[t * topk + s]));
    }
    for (std::int64_t i = 0; i < hidden; ++i)
      out[0][t * hidden + i] = store(p, ordered_sum(f32, terms[i], "seq", 0), p.attributes.text("dtype"));
  }
  return out;
}

}  // namespace

extern const Family kMatmulFamily{"matmul",       "matmul",        kMatmulShape, kMatmulKernel,
                                  "last_dropped", matmul_contract, matmul_run};
extern const Family kMoeFamily{"moe", "moe", kMoeShape, kMoeKernel, "last_dropped", moe_contract, moe_run};

}  // namespace assay::adversary
