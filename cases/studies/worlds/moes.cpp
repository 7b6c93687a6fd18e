// Worlds of moe: one token, one or two experts, two of everything else.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

struct Moe {
  Arithmetic acc, f32, operand, gate_up, h, expert_out;
  Order order;
  double silu_ulp = 8;
  bool before = false;
};

// "error of silu, in units in the last place of f32"
Set silu(const Moe& k, double g) {
  if (g == 0) return {0};  // no kernel's silu(0) is another number
  const long double x = static_cast<long double>(g);
  return thinned(within(k.f32, g < -11400 ? 0 : x / (1 + std::exp(-x)), k.silu_ulp), 3);
}

Set dot(const Moe& k, const std::vector<double>& x, const std::vector<double>& w) {
  std::vector<Term> terms;
  for (std::size_t i = 0; i < x.size(); ++i) terms.push_back({x[i], w[i], true});
  return thinned(sums(k.acc, terms, k.order), 3);
}

Set to(const Arithmetic& a, const Set& s) {
  return each(s, [&](double v) { return rounded(a, v); });
}

// "gate and up are rounded to this"; "silu(g) v is rounded to this before what the path does"; "w2 h is
// rounded to this before its weight"; "c (w2 h), or w2 (c h)".
Set expert(const Moe& k, const std::vector<double>& x, const std::vector<std::vector<double>>& gate,
           const std::vector<std::vector<double>>& up, const std::vector<double>& w2, double c) {
  std::vector<Set> hidden;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const Set g = to(k.gate_up, dot(k, x, gate[i])), u = to(k.gate_up, dot(k, x, up[i]));
    Set h = multiplied(k.f32, thinned(each(g, [&](double v) { return silu(k, v); }), 3), u);
    if (k.before) h = multiplied(k.f32, h, used(k.f32, c));
    hidden.push_back(thinned(to(k.operand, to(k.h, h)), 3));
  }
  Set y;
  std::vector<std::size_t> at(hidden.size(), 0);
  std::size_t i = 0;
  do {
    std::vector<double> h;
    for (std::size_t j = 0; j < hidden.size(); ++j) h.push_back(hidden[j][at[j]]);
    join(y, dot(k, h, w2));
    for (i = 0; i < at.size() && ++at[i] == hidden[i].size(); ++i) at[i] = 0;
  } while (i < at.size());
  y = to(k.expert_out, y);
  return k.before ? y : multiplied(k.f32, y, used(k.f32, c));
}

std::vector<Batch> batches_of(const World& w, int inter, std::size_t budget) {
  const bool flush = declared(w, "ftz") == "yes";
  const auto type = [&](std::string_view key) { return arithmetic(declared(w, key), flush); };
  const std::string path = w.attributes.at("path"), dtype = w.attributes.at("dtype");
  Moe k{type("acc"),
        arithmetic("f32", flush),
        arithmetic(path, flush),
        type("gate_up"),
        type("h"),
        type("expert_out"),
        order_of(declared(w, "order")),
        std::stod(std::string(declared(w, "silu_ulp"))),
        declared(w, "weight") == "before"};
  const ScalarFormat& f = scalar_format(path);
  std::vector<double> alphabet;
  for (const double x : {1.0, -1.0, 0.7, -2.5, 10.0, -88.0, -95.0, -103.0, 0x1p-10, 0x1.8p-100, 0x1p+15,
                         0x1.8p+100, 0x1p-126, 0.0, -17.0})
    if (std::isfinite(round_to(f, x, {Rounding::nearest_even, Overflow::ieee})))
      alphabet.push_back(round_to(f, x));
  const auto pick = [&](std::size_t seed) {
    return alphabet[(seed * seed * 31 + seed * 17 + seed / 7) % alphabet.size()];
  };
  const Op& the_op = op("moe");
  std::vector<Batch> all;
  for (std::size_t r = 0; r < std::max<std::size_t>(20, std::min<std::size_t>(budget / 2, 20000)); ++r) {
    std::vector<double> x{1.0, r % 3 == 0 ? 0.0 : 0.5}, w13, w2;
    std::vector<std::vector<double>> gate, up, down(2);
    for (int i = 0; i < inter; ++i)
      gate.push_back({pick(r + 100U * static_cast<unsigned>(i)), pick(r / 3 + 5)});
    for (int i = 0; i < inter; ++i)
      up.push_back({pick(r / 5 + 1 + 50U * static_cast<unsigned>(i)), pick(r / 2 + 9)});
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < inter; ++i)
        down[static_cast<std::size_t>(j)].push_back(pick(r / 11 + 3 * static_cast<unsigned>(i + j)));
    const double c = static_cast<double>(std::vector<float>{1.0F, 0.3F, 0x1p-120F, 0x1.8p-130F}[r % 4]);
    for (const auto& part : {gate, up})
      for (const auto& row : part) w13.insert(w13.end(), row.begin(), row.end());
    for (const auto& row : down) w2.insert(w2.end(), row.begin(), row.end());
    Batch b;
    b.attributes = w.attributes;
    b.attributes.insert({{"tokens", "1"},
                         {"hidden", "2"},
                         {"inter", std::to_string(inter)},
                         {"experts", "1"},
                         {"topk", "1"}});
    the_op.indices(Attributes::complete(the_op.attributes, b.attributes), 1, b.inputs);
    b.inputs["x"] = tensor(path, {1, 2}, x);
    b.inputs["w13"] = tensor(path, {1, 2 * inter, 2}, w13);
    b.inputs["w2"] = tensor(path, {1, 2, inter}, w2);
    b.inputs["topk_weights"] = tensor("f32", {1, 1}, {c});
    for (int j = 0; j < 2; ++j)
      b.members.push_back(stored(expert(k, x, gate, up, down[static_cast<std::size_t>(j)], c), w, dtype));
    b.inputs_of = [x, w13, w2, c](std::size_t) {
      return "x=" + hex(x) + " w13=" + hex(w13) + " w2=" + hex(w2) + fmt::format(" c={:a}", c);
    };
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace

std::vector<World> moe_worlds() {
  std::vector<World> all;
  const auto add = [&](int inter, Words attributes, Keys contract, const char* why) {
    all.push_back(
        named("moe", fmt::format("inter={}", inter), std::move(attributes), std::move(contract), why,
              [inter](const World& w, std::size_t budget) { return batches_of(w, inter, budget); }));
  };
  constexpr auto kSilu = "silu_ulp: error of silu, in units in the last place of f32";
  for (const char* path : {"f32", "f16", "bf16"})
    for (const int inter : {1, 2}) {
      const Words words{{"a", path}, {"path", path}, {"dtype", "f32"}};
      add(inter, words, {}, kSilu);
      add(inter, words, {{"silu_ulp", "1"}}, kSilu);
      add(inter, words, {{"ftz", "yes"}}, "ftz: subnormal inputs and results may become zero");
      add(inter, words, {{"weight", "before"}}, "weight: w2 (c h): the weight before h is rounded");
      add(inter, words, {{"weight", "before"}, {"ftz", "yes"}},
          "weight: w2 (c h): the weight before h is rounded");
      for (const char* narrow : {"f16", "bf16"}) {
        add(inter, words, {{"gate_up", narrow}}, "gate_up: gate and up are rounded to this");
        add(inter, words, {{"h", narrow}}, "h: silu(g) v is rounded to this before what the path does");
        add(inter, words, {{"expert_out", narrow}}, "expert_out: w2 h is rounded to this before its weight");
        add(inter, {{"a", path}, {"path", path}, {"dtype", narrow}}, {}, "round: rounding to the output");
        add(inter, words, {{"acc", narrow}}, "acc: how products are summed");
      }
    }
  return all;
}

}  // namespace assay::worlds
