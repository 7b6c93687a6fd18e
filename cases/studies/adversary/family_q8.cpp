// matmul by path q8, as ggml has it on a CPU.
#include <algorithm>
#include <cmath>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/products.hpp"
#include "reference/formats/factors.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kQ8Shape[] = {{"m", "1|2"},
                             {"n", "1|4"},
                             {"k", "32|64|256|1024"},
                             {"a", "f32"},
                             {"b", "q8_0|q8_0|q4_0|q4_1|q5_0|q5_1|iq4_nl"},
                             {"path", "q8"},
                             {"dtype", "f32|f32|f16|bf16"}};

constexpr Axis kQ8Kernel[] = {{"sum", kSums},
                              {"fused", "no|yes"},
                              {"whole", "no|yes"},
                              {"scale", "divide|reciprocal|inverse"},
                              {"code", "divide|reciprocal|direct"},
                              {"ties", "even|away"},
                              {"epilogue", "in_turn|in_turn|scales_first"},
                              {"scale_format", "f16|f16|f32"},
                              {"say", "any|sharp|sharp"},
                              {kStoreAxes[0][0], kStoreAxes[0][1]},
                              {kStoreAxes[1][0], kStoreAxes[1][1]},
                              {kStoreAxes[2][0], kStoreAxes[2][1]},
                              {kStoreAxes[3][0], kStoreAxes[3][1]}};

// ggml on a CPU: activations to blocks of 32 codes under an f16 scale, integer products of a block, its scales, sums in f32. Or
// both operands decoded, and plain products.
void q8_contract(const Attributes&, const Choices& c, Words& words) {
  words.say("acc", "f32");
  if (choice(c, "say") == "sharp")
    for (const char* key : {"scale", "code", "ties"}) words.say(key, choice(c, key));
  words.say("scale_format", choice(c, "scale_format"));
  const bool sharp = choice(c, "say") == "sharp" && choice(c, "whole") == "no";
  words.say("order", order_word(choice(c, "sum"), sharp));
  say_store(c, words);
}

Outputs q8_run(const Problem& p) {
  const bool flush = p.is("ftz", "yes");
  const Arithmetic f32("f32", flush), plain("f32"), f16("f16");
  const std::int64_t m = p.attributes.integer("m"), n = p.attributes.integer("n"),
                     k = p.attributes.integer("k");
  Outputs out(1);
  for (std::int64_t i = 0; i < m; ++i) {
    std::vector<double> code(static_cast<std::size_t>(k)), stored(code.size() / 32);
    for (std::size_t block = 0; block < stored.size(); ++block) {
      const double* x = p.tensor("a").data() + i * k + static_cast<std::int64_t>(block) * 32;
      double absmax = 0;
      for (int c = 0; c < 32; ++c) absmax = std::max(absmax, std::fabs(x[c]));
      const double direct = plain.div(127, absmax);
      const double d = p.is("scale", "divide")    ? plain.div(absmax, 127)
                       : p.is("scale", "inverse") ? plain.div(1, direct)
                                                  : plain.mul(absmax, plain.div(1, 127));
      const double inverse = p.is("code", "direct") ? direct : plain.div(1, d);
      const bool divides = p.is("code", "divide") || !std::isfinite(inverse);
      for (int c = 0; c < 32; ++c) {
        const double q = d == 0 ? 0 : divides ? plain.div(x[c], d) : plain.mul(x[c], inverse);
        code[block * 32 + static_cast<std::size_t>(c)] =
            p.is("ties", "even") ? std::nearbyint(q) : std::round(q);
      }
      stored[block] = p.is("scale_format", "f32") ? d : f16.round(d);
    }
    if (p.is("defect", "last_dropped")) code.back() = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double* w = p.tensor("b").data() + j * k;
      std::vector<Factors> weights(static_cast<std::size_t>(k));
      factors(p.set.at("b"), j * k, weights);
      // The integer sum of a block times the product of both scales, where no minimum is beside them.
      const bool scales_first =
          p.is("epilogue", "scales_first") && std::ranges::all_of(weights, [](const Factors& f) {
            return f.minimum == 0 && f.scale != 0 && std::isfinite(f.scale);
          });
      double c = 0;
      if (p.is("whole", "yes")) {
        std::vector<double> sums;
        for (std::size_t block = 0; block < stored.size(); ++block) {
          double sum = 0;  // exact: integers times one scale
          for (std::size_t at = block * 32; at < block * 32 + 32; ++at) sum += code[at] * w[at];
          sums.push_back(scales_first ? f32.mul(sum / weights[block * 32].scale,
                                                f32.mul(stored[block], weights[block * 32].scale))
                                      : f32.round(sum * stored[block]));
        }
        c = ordered_sum(f32, sums, "seq", 0);
      } else {
        std::vector<double> x(code.size());
        for (std::size_t at = 0; at < x.size(); ++at) x[at] = code[at] * stored[at / 32];
        c = ordered_sum(f32, x, {w, x.size()}, p.text("sum"), p.is("fused", "yes"), p.seed());
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
