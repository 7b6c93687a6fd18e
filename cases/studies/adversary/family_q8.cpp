// matmul by paths q8, q8_1 and q8_K, as ggml has it on a CPU, and on CUDA.
#include <algorithm>
#include <cmath>
#include <span>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/products.hpp"
#include "reference/formats/factors.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kQ8Shape[] = {{"m", "1|2"},
                             {"n", "1|4"},
                             {"k", "32|64|256|1024"},
                             {"a", "f32"},
                             {"b", "q8_0|q8_0|q4_0|q4_1|q5_0|q5_1|iq4_nl|q4_K|q5_K"},
                             {"path", "q8|q8|q8|q8_1|q8_K"},
                             {"dtype", "f32|f32|f16|bf16"}};

constexpr Axis kQ8Kernel[] = {{"sum", kSums},
                              {"fused", "no|yes"},
                              {"whole", "no|yes|apart"},
                              {"acc", "f32|f32|f32|f64"},
                              {"scale", "divide|reciprocal|inverse"},
                              {"code", "divide|reciprocal|direct"},
                              {"ties", "even|away"},
                              {"sums", "codes|values"},
                              {"epilogue", "in_turn|in_turn|scales_first"},
                              {"scale_format", "f16|f16|f32"},
                              {"say", "any|sharp|sharp"},
                              {"untold", "none|none|none|ties|all"},
                              ASSAY_STORE_AXES};

// Scales in f16 by q8 alone, of q8_1 always, of q8_K never.
bool is_f16_scale(const Attributes& a, const Choices& c) {
  const std::string& path = a.text("path");
  return path == "q8_1" || (path == "q8" && choice(c, "scale_format") != "f32");
}

// ggml on CUDA: the sum beside a block is that of the numbers before they are quantised.
bool are_values_summed(const Attributes& a, const Choices& c) {
  return a.text("path") == "q8_1" && choice(c, "whole") == "yes" && choice(c, "sums") == "values";
}

// ggml on a CPU: activations to blocks of codes, integer products of a block, its scales, sums in f32. Or
// both operands decoded, and plain products.
void q8_contract(const Attributes& a, const Choices& c, Words& words) {
  const bool by_blocks = choice(c, "whole") == "yes" || choice(c, "whole") == "apart";
  const bool is_wide = choice(c, "acc") == "f64" && !by_blocks;
  words.say("acc", is_wide ? "f64" : "f32");
  if (is_wide) words.say("dequant_roundings", "0"), words.say("epilogue_roundings", "0");  // nothing is f32
  const std::string& untold = choice(c, "untold");
  const bool told = choice(c, "say") == "sharp" && untold != "all";
  for (const char* key : {"scale", "code"})
    if (told && untold != key) words.say(key, choice(c, key));
  // By their rule halves go away from zero.
  const bool either = choice(c, "ties") == "even" || untold == "ties";
  words.say("ties", told && untold != "ties" ? choice(c, "ties") : either ? "any" : "rule");
  if (a.text("path") == "q8") words.say("scale_format", choice(c, "scale_format"));
  if (are_values_summed(a, c)) words.say("sums", "values");
  const bool sharp = choice(c, "say") == "sharp" && !by_blocks;
  words.say("order", order_word(choice(c, "sum"), sharp));
  say_store(c, words);
}

struct Block {
  std::vector<double> codes;
  double scale = 0, stored = 0;
  double values = 0;  // sum of what was quantised
};

Block quantised(const Problem& p, std::span<const double> x) {
  const Arithmetic f32("f32");
  double absmax = 0;
  for (const double each : x) absmax = std::max(absmax, std::fabs(each));
  const double direct = f32.div(127, absmax);
  Block block;
  block.scale = p.is("scale", "reciprocal") ? f32.mul(absmax, f32.div(1, 127))
                : p.is("scale", "inverse")  ? f32.div(1, direct)
                                            : f32.div(absmax, 127);
  const double d = block.scale, inverse = p.is("code", "direct") ? direct : f32.div(1, d);
  const bool divides = p.is("code", "divide") || !std::isfinite(inverse);
  for (const double each : x) {
    const double q = d == 0 ? 0 : divides ? f32.div(each, d) : f32.mul(each, inverse);
    block.codes.push_back(p.is("ties", "even") ? std::nearbyint(q) : std::round(q));
    block.values = f32.add(block.values, each);
  }
  block.stored = is_f16_scale(p.attributes, p.choices) ? Arithmetic("f16").round(d) : d;
  return block;
}

// 32 products by their integer codes: the sum of codes times both scales, less the minimum times the sum of
// activations.
double of_codes(const Problem& p, const Block& block, std::size_t first, std::span<const Factors> w) {
  const Arithmetic f32("f32", p.is("ftz", "yes"));
  // Codes of q4_0 and q5_0 as they are stored, and their offset as a minimum, where sums of values say that
  // there is one.
  const std::string& b = p.attributes.text("b");
  const double offset = !are_values_summed(p.attributes, p.choices) ? 0
                        : b == "q4_0"                               ? 8
                        : b == "q5_0"                               ? 16
                                                                    : 0;
  double sum = 0, codes = 0;  // exact
  for (std::size_t i = 0; i < w.size(); ++i)
    sum += block.codes[first + i] * (w[i].code + offset), codes += block.codes[first + i];
  // Path q8 says nothing of minima apart from the codes: weights as they are decoded.
  if (p.attributes.text("path") == "q8" && w[0].minimum != 0) {
    double decoded = 0;
    for (std::size_t i = 0; i < w.size(); ++i)
      decoded +=
          block.codes[first + i] * (w[i].code * w[i].scale * w[i].second - w[i].minimum * w[i].minimum_scale);
    return f32.round(decoded * block.stored);
  }
  const double scale = f32.mul(w[0].scale, w[0].second),
               minimum =
                   offset != 0 ? f32.mul(offset, w[0].scale) : f32.mul(w[0].minimum, w[0].minimum_scale);
  const double product = p.is("epilogue", "scales_first")
                             ? f32.mul(f32.round(sum), f32.mul(block.stored, scale))
                             : f32.mul(f32.mul(f32.round(sum), block.stored), scale);
  if (minimum == 0) return product;
  const double own = are_values_summed(p.attributes, p.choices) ? Arithmetic("f16").round(block.values)
                     : p.attributes.text("path") == "q8_1"
                         ? Arithmetic("f16").round(f32.mul(block.scale, codes))
                         : f32.mul(block.stored, codes);
  return f32.sub(product, f32.mul(minimum, own));
}

Outputs q8_run(const Problem& p) {
  const Arithmetic f32("f32", p.is("ftz", "yes"));
  const std::int64_t m = p.attributes.integer("m"), n = p.attributes.integer("n"),
                     k = p.attributes.integer("k");
  const std::size_t length = static_cast<std::size_t>(k),
                    size = p.attributes.text("path") == "q8_K" ? 256 : 32;
  Outputs out(1);
  for (std::int64_t i = 0; i < m; ++i) {
    const std::span<const double> row(p.tensor("a").data() + i * k, length);
    std::vector<Block> blocks;
    for (std::size_t at = 0; at < length; at += size) blocks.push_back(quantised(p, row.subspan(at, size)));
    if (p.is("defect", "last_dropped")) blocks.back().codes.back() = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double* w = p.tensor("b").data() + j * k;
      std::vector<double> terms;
      double c = 0;
      std::vector<Factors> weights(length);
      factors(p.set.at("b"), j * k, weights);
      if (p.is("whole", "apart") && p.attributes.text("path") == "q8_K") {
        // Products with codes and products with minima, each number by itself: two sums, in two orders.
        std::vector<double> x, codes, minima;
        for (std::size_t at = 0; at < length; ++at) {
          const Factors& f = weights[at];
          x.push_back(f32.mul(blocks[at / size].codes[at % size], blocks[at / size].stored));
          codes.push_back(f32.mul(f32.mul(f.code, f.second), f.scale));
          minima.push_back(f32.mul(f.minimum, f.minimum_scale));
        }
        c = f32.sub(ordered_sum(f32, x, codes, p.text("sum"), false, p.seed()),
                    ordered_sum(f32, x, minima, p.text("sum"), false, p.seed()));
      } else if (p.is("whole", "yes")) {
        for (std::size_t at = 0; at < length; at += 32)
          terms.push_back(of_codes(p, blocks[at / size], at % size, std::span(weights).subspan(at, 32)));
        c = ordered_sum(f32, terms, "seq", 0);
      } else {
        const Arithmetic acc(p.is("acc", "f64") ? "f64" : "f32", p.is("ftz", "yes"));
        for (std::size_t at = 0; at < length; ++at)
          terms.push_back(blocks[at / size].codes[at % size] * blocks[at / size].stored);
        c = ordered_sum(acc, terms, {w, length}, p.text("sum"), p.is("fused", "yes"), p.seed());
      }
      out[0].push_back(store(p, c, p.attributes.text("dtype")));
    }
  }
  return out;
}

}  // namespace

extern const Family kMatmulQ8Family{"matmul_q8",    "matmul",    kQ8Shape, kQ8Kernel,
                                    "last_dropped", q8_contract, q8_run};

}  // namespace assay::adversary
