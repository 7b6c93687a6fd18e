// The probes of a mixture of experts and of argmax.
//
//   one       topk 1, every expert the same, h = 32 exactly, small whole numbers    the products
//   routed    the same, each expert 2^e times another                              which expert a token gets
//   weighted  topk and weights as given                                            the experts' weights and
//             their sum
//   gated     gates around 0                                                       silu(gate) times up
//   many      numbers of many bits                                                 the products' sums
//
// each with operands of f32; then the formats and the output's format of the case.
#include <cmath>

#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {
namespace {

enum class Asked { one, routed, weighted, gated, many, codes };

// silu(32) is 32: exp(-32) is lost beside 1. A row of w13 has one number beside 0, and so has a row of w2.
void fill(Asked asked, const TensorSpec& t, std::vector<float>& x) {
  const auto columns = static_cast<std::size_t>(t.shape.back());
  const auto rows = t.shape.size() > 2 ? static_cast<std::size_t>(t.shape[1]) : 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % columns, row = i / columns % rows, expert = i / columns / rows;
    const bool gate = t.name == "w13" && row < rows / 2;
    const auto angle = static_cast<double>(i) * 1.7 + static_cast<double>(t.name.size());
    double value = 0;
    if (t.name == "topk_weights") {
      if (asked == Asked::weighted || asked == Asked::many) continue;
      value = 1;
    } else if (asked == Asked::many) {
      value = std::sin(angle);
    } else if (t.name == "x") {
      value = asked == Asked::gated ? std::sin(angle) : 1;
    } else if (asked == Asked::codes) {
      // Every 32nd has the largest code, so that scales by the usual rules are powers of two.
      const double largest = t.format.starts_with("int4") ? 7 : t.format.starts_with("e4m3fn") ? 448 : 127;
      value = c % 32 == 0 ? largest : static_cast<double>(i * 7 % 13) - 6;
    } else if (c == row % columns) {
      const double factor = asked == Asked::routed ? std::ldexp(1.0, static_cast<int>(expert % 8)) : 1;
      value = gate ? (asked == Asked::gated ? 3 : 32) : factor;
    }
    x[i] = static_cast<float>(value);
  }
}

}  // namespace

void attribute_moe(Bench& bench, Attribution& a) {
  const auto name = [&](const char* stage, const char* why) { a.stage = stage, a.support.emplace_back(why); };
  if (bench.first().verdict.status != Status::wrong && bench.first().verdict.status != Status::distrust)
    return name("addressing", "it ended early");
  const auto& all = bench.the_case().attributes;
  const auto own = [&](const char* key) { return Change{key, all.text(key)}; };
  const auto bad = [&](std::vector<Change> changes, Asked asked) {
    changes.insert(changes.end(), {{"tokens", "8"}, {"layout", "dense"}});
    const Answer answer =
        bench.ask(changes, Edit([asked](const TensorSpec& t, std::vector<float>& x) { fill(asked, t, x); }));
    return answer.ran && answer.bad;
  };
  const std::vector<Change> plain = {{"a", "f32"},     {"w", "f32"},     {"path", "f32"},
                                     {"dtype", "f32"}, {"hidden", "8"},  {"inter", "8"},
                                     {"topk", "1"},    {"experts", "4"}, {"w2", "f32"}};
  std::vector<Change> several = plain;
  several[6].second = "2";
  std::vector<Change> formats = {own("a"),         own("w"),         own("path"),
                                 {"dtype", "f32"}, {"hidden", "64"}, {"inter", "64"},
                                 {"topk", "1"},    {"experts", "4"}, own("w2")};
  if (bench.contract_of(plain)) {
    if (bad(plain, Asked::one))
      return name("dot", "one product to a sum is wrong already, every expert alike");
    if (bad(plain, Asked::routed)) return name("routing", "experts alike are right, others are not");
    if (bad(several, Asked::weighted)) return name("routing", "one expert to a token is right, two are not");
    if (bad(plain, Asked::gated)) return name("gate", "gates of 32 are right, those around 0 are not");
    if (bad(several, Asked::many)) return name("dot", "sums of many products are wrong");
    a.support.emplace_back("with plain f32 every stage is right");
  }
  if (bad(formats, Asked::codes)) return name("codec", "whole numbers in their own formats are wrong");
  if (bad(formats, Asked::many))
    return all.text("a").find('_') != std::string::npos
               ? name("scale", "whole numbers in their own formats are right, others are not")
               : name("codec", "operands in their own formats make it wrong");
  formats[3] = own("dtype");
  if (bad(formats, Asked::many)) return name("output", "the output's format makes it wrong");
  a.against.emplace_back("no probe is wrong: what the case's own data have is not among them");
}

void attribute_argmax(Bench& bench, Attribution& a) {
  const auto name = [&](const char* stage, const char* why) { a.stage = stage, a.support.emplace_back(why); };
  // The largest of row r stands at column 5 r + 1, twice with `ties`, behind a NaN with `nan`.
  const auto bad = [&](bool ties, bool nan) {
    const Answer answer = bench.ask({{"rows", "16"}, {"cols", "33"}, {"layout", "dense"}},
                                    Edit([=](const TensorSpec&, std::vector<float>& x) {
                                      for (std::size_t i = 0; i < x.size(); ++i) {
                                        const std::size_t row = i / 33, c = i % 33, top = (5 * row + 1) % 33;
                                        x[i] = c == top ? 8.0F : -static_cast<float>(c + 1) / 8;
                                        if (ties && c == (top + 7) % 33) x[i] = 8;
                                        if (nan && c == (top + 3) % 33) x[i] = NAN;
                                      }
                                    }));
    return answer.ran && answer.bad;
  };
  if (bad(false, false)) return name("addressing", "a single largest number is not where it should be");
  if (bad(true, false)) return name("max", "of equal numbers another than the first is taken");
  if (bad(false, true)) return name("max", "rows with a NaN are wrong");
  if (bench.the_case().layout != "dense") return name("addressing", "rows side by side are right");
  name("max", "which of its own numbers is the largest is wrong");
}

}  // namespace assay::attribution
