// Dot products in every order, in f32 or narrower, of decoded operands or of codes with their scales after;
// matmul of them.
#include <algorithm>
#include <array>
#include <cmath>

#include "cases/studies/adversary/decoding.hpp"
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
  const Arithmetic f32("f32", flush),
      type(path, flush && !p.is("summed_by", "unit"));  // which flushes below 2^-126 alone
  if (is_decoded_in_steps(tensor.format, p.text("steps"))) {
    std::vector<Factors> parts(row.x.size());
    factors(tensor, index * n, parts);
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (std::isfinite(row.x[i])) row.x[i] = step_by_step(f32, parts[i], p.text("steps"));
  }
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
  const Arithmetic acc(p.is("acc", "i32") ? "f64" : p.text("acc"), flush);
  std::vector<double> left = a.x;
  if (p.is("defect", "last_dropped")) left.back() = 0;
  const double sum = ordered_sum(acc, left, b.x, p.text("sum"), p.is("fused", "yes"), p.seed());
  return codes ? with_scales(p, sum, a, b) : sum;
}

double with_scales(const Problem& p, double sum, const Row& a, const Row& b) {
  const Arithmetic f32("f32", p.is("ftz", "yes"));
  const double c = f32.round(sum);
  return p.is("epilogue", "scales_first") ? f32.mul(c, f32.mul(a.scale, b.scale))
                                          : f32.mul(f32.mul(c, a.scale), b.scale);
}

void say_decoding(const std::vector<std::string>& formats, const Choices& c, Words& words) {
  double most = 1;
  for (const std::string& each : formats)
    if (is_decoded_in_steps(each, choice(c, "steps")))
      most = std::max(most, roundings_of(choice(c, "steps"), each));
  words.say("dequant_roundings", most);
}

void say_dot(const std::string& path, bool integers, const Choices& c, Words& words) {
  words.say("acc", path == "codes" && integers ? "i32" : choice(c, "acc"));
  words.say("order", order_word(choice(c, "sum"), choice(c, "say") == "sharp"));
}

// Integer codes are summed in i32, whatever was drawn.
Choices with_accumulator(const Choices& c, bool integers) {
  Choices own = c;
  if (integers) own["acc"] = "i32";
  return own;
}

namespace {

constexpr Axis kMatmulShape[] = {
    {"m", "1|2"},
    {"n", "1|4"},
    {"k", "1|2|3|8|17|64|64|256|1024|4096"},
    {"a", "f32|f16|bf16|e4m3fn_tok|int8_tok"},
    {"b",
     "f32|f16|bf16|e4m3fn_tok|int8_tok|q8_0|int4_g32|int4_g32_bf16|int4_g32_packed|nvfp4|"
     "int4_g32_tensor|q4_1"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kMatmulKernel[] = {
    {"acc", "f32|f32|f32|f16|bf16"},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"fused", "no|yes"},
    {"epilogue", "in_turn|scales_first"},
    {"steps", kDecodings},
    ASSAY_STORE_AXES,
};

void matmul_contract(const Attributes& a, const Choices& c, Words& words) {
  const bool integers =
      integer_codes(a.text("a"), a.text("b")) && own_path(a.text("a"), a.text("b")) == "codes";
  say_dot(own_path(a.text("a"), a.text("b")), integers, c, words);
  say_decoding({a.text("a"), a.text("b")}, c, words);
  say_store(c, words);
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

}  // namespace

extern const Family kMatmulFamily{"matmul",       "matmul",        kMatmulShape, kMatmulKernel,
                                  "last_dropped", matmul_contract, matmul_run};

}  // namespace assay::adversary
