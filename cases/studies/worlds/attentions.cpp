// Worlds of attention: one to three keys, one element of a value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_attention.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

std::vector<Batch> batches_of(const World& w, int n, int d, std::size_t budget) {
  Attention a;
  const auto number = [&](std::string_view key) { return std::stod(std::string(declared(w, key))); };
  const auto attribute = [&](const char* key, const char* fallback) {
    return w.attributes.contains(key) ? w.attributes.at(key) : std::string(fallback);
  };
  a.qk = arithmetic(declared(w, "qk"), false);
  a.scores = arithmetic(declared(w, "scores"), false);
  a.p = arithmetic(declared(w, "p"), false);
  a.saturates = scalar_format(declared(w, "p")).bits == 8;
  a.rowsum = arithmetic(declared(w, "rowsum"), false);
  a.pv = arithmetic(declared(w, "pv"), false);
  a.qk_order = order_of(declared(w, "qk_order"));
  a.pv_order = order_of(declared(w, "pv_order"));
  a.rowsum_order = order_of(declared(w, "rowsum_order"));
  a.exp_ulp = number("exp_ulp");
  a.tanh_ulp = number("tanh_ulp");
  a.div_ulp = number("div_ulp");
  a.p_shift = static_cast<int>(number("p_shift"));
  a.tile = static_cast<int>(number("tile"));
  a.split = static_cast<int>(number("split"));
  a.cast_denominator = declared(w, "denominator") == "cast";
  a.fused_argument = declared(w, "argument") == "any";
  a.scale = static_cast<double>(static_cast<float>(std::stod(attribute("scale", "1"))));
  a.softcap = std::stod(attribute("softcap", "0"));
  if (has_word(w.op, "scaling", "")) {
    const std::string_view scaling = declared(w, "scaling");
    a.scales_scores = scaling == "any" || scaling == "scores";
    a.scales_q = scaling != "scores";
    if (scaling == "q_rounded") a.q_scaled = arithmetic(attribute("dtype", "f32"), false).precision;
  }
  a.exp_of_zero_is_one = meaning(w, "exp_ulp").find("exp(0) is 1") != std::string_view::npos;
  if (has_word(w.op, "lag", "")) a.lag = number("lag");
  a.shares = has_word(w.op, "weights", "shares") && declared(w, "weights") == "shares";
  a.shaped = declared(w, "order") == "tiles";
  if (const double promote = number("promote"); promote < n) a.promote = static_cast<int>(promote);
  a.has_sink = attribute("sinks", "no") == "yes";
  a.slope = attribute("alibi", "no") == "yes" ? 0x1.555556p-2 : 0;
  // "format that q is converted to first, to nearest"; "format that K and V are converted to first, to
  // nearest".
  const auto converted = [&](std::string_view key, double v) {
    const std::string_view to = declared(w, key);
    return to == "none" ? v : round_to_precision(v, arithmetic(to, false).precision);
  };
  const std::string kv = attribute("kv", "f16"), dtype = attribute("dtype", "f32");
  const ScalarFormat& f = scalar_format(kv);
  std::vector<double> keys, values;
  for (const double x : {0.0, 0x1.3p-9, 1.0, -1.375, 5.5, -9.25, 17.0, -44.0, 88.0, -104.5, 300.0})
    keys.push_back(round_to(f, x));
  for (const double x : {1.0, -1.0, 0x1.8p-20, -0x1.ffcp-14, 0.0, 240.0, 0x1.ffcp+15})
    values.push_back(round_to(f, x));
  // Two of them, or three, are beyond f32.
  if (kv == "f32") values = {1.0, 0x1.6p+126, -1.0, 0x1.8p-20, 0x1.fp+126, 0x1.8p-140, -0x1.7p+126};
  const std::size_t count_wanted = std::max<std::size_t>(8, budget);
  // A row of the enumeration: a key's digit and a value's for each key.
  std::vector<double> codes;
  for (std::size_t i = 0; i < keys.size() * values.size(); ++i) codes.push_back(static_cast<double>(i));
  auto rows = rows_of(codes, n, false, count_wanted);
  if (kv == "f32")  // equal logits of large values
    for (const std::size_t large : {1U, 4U, 6U})
      rows.push_back(
          std::vector<double>(static_cast<std::size_t>(n), static_cast<double>(keys.size() * large)));
  Batch b;
  const auto count = static_cast<std::int64_t>(rows.size());
  b.attributes = w.attributes;
  b.attributes.insert({"scale", "1"});
  b.attributes.insert({"dtype", dtype});
  b.attributes.insert({{"batch", std::to_string(count)},
                       {"heads", "1"},
                       {"d", std::to_string(d)},
                       {"dv", "1"},
                       {"len", std::to_string(n)}});
  // One sink a head, of all sequences.
  a.sink = 6.5;
  std::vector<double> q_all, k_all, v_all;
  std::vector<std::string> text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Keys3 x;
    for (int j = 0; j < d; ++j) x.q.push_back(j == 0 ? 1.0 : 0x1.004p-2);
    if (dtype == "f32" && r % 3 == 1) x.q[0] = static_cast<double>(0x1.234566p-1F);
    if (r % 3 == 2) x.q[0] = -0.5;
    for (const double code : rows[r]) {
      const auto index = static_cast<std::size_t>(code);
      std::vector<double> k;
      for (int j = 0; j < d; ++j) k.push_back(keys[(index + static_cast<std::size_t>(j) * 4) % keys.size()]);
      x.k.push_back(k);
      x.v.push_back(values[index / keys.size()]);
    }
    q_all.insert(q_all.end(), x.q.begin(), x.q.end());
    for (const auto& k : x.k) k_all.insert(k_all.end(), k.begin(), k.end());
    v_all.insert(v_all.end(), x.v.begin(), x.v.end());
    Keys3 read = x;
    for (double& v : read.q) v = converted("q", v);
    for (auto& k : read.k)
      for (double& v : k) v = converted("convert", v);
    for (double& v : read.v) v = converted("convert", v);
    b.members.push_back(stored(attention_members(a, read), w, dtype));
    std::string line = "q=" + hex(x.q) + " k=[";
    for (const auto& k : x.k) line += hex(k);
    text.push_back(line + "] v=" + hex(x.v));
  }
  b.inputs["q"] = tensor(dtype, {count, 1, 1, d}, q_all);
  b.inputs["k"] = tensor(kv, {count, n, 1, d}, k_all);
  b.inputs["v"] = tensor(kv, {count, n, 1, 1}, v_all);
  if (a.slope != 0) b.inputs["slopes"] = tensor("f32", {1}, {a.slope});
  if (a.has_sink) b.inputs["sinks"] = tensor("f32", {1}, {a.sink});
  b.inputs_of = [text](std::size_t i) { return text[i]; };
  return {b};
}

}  // namespace

std::vector<World> attention_worlds() {
  std::vector<World> all;
  const auto add = [&](int n, int d, Words attributes, Keys contract, const char* why) {
    for (const char* level : {"ca", "detord", "detap"}) {
      Keys keys = contract;
      keys.push_back({"level", level});
      all.push_back(
          named("attention", fmt::format("n={} d={}", n, d), attributes, std::move(keys), why,
                [n, d](const World& w, std::size_t budget) { return batches_of(w, n, d, budget / 8); }));
    }
  };
  // What the levels above detap are of.
  const auto shaped = [&](int n, Words attributes, Keys contract, const char* why) {
    for (const auto& [key, word] : Keys{{"order", "tiles"},
                                        {"tiles", "aligned"},
                                        {"scaling", "scores"},
                                        {"sink", "last"},
                                        {"merge", "once"}})
      contract.push_back({key, word});
    add(n, 1, std::move(attributes), std::move(contract), why);
  };
  for (const int n : {1, 2, 3}) {
    for (const char* kv : {"f16", "f32"})
      for (const char* p : {"f32", "bf16", "e4m3fn"}) {
        const char* const shift = std::string_view(p) == "e4m3fn" ? "8" : "0";
        const Words of = {{"kv", kv}};
        shaped(n, of, {{"p", p}, {"p_shift", shift}}, "order=tiles: order of the tiles");
        shaped(n, of, {{"p", p}, {"p_shift", shift}, {"tile", "1"}},
               "tile: keys per step of the online softmax");
        shaped(n, of, {{"p", p}, {"p_shift", shift}, {"promote", "1"}},
               "promote: keys per partial sum of p.v");
        if (n > 1)
          shaped(n, of, {{"p", p}, {"p_shift", shift}, {"tile", "1"}, {"split", "2"}},
                 "merge=once: all scaled to their largest, divided by their sums before or not");
      }
    shaped(n, {{"sinks", "yes"}}, {}, "sink=last: meets the sink after the keys");
    shaped(n, {{"sinks", "yes"}}, {{"tile", "1"}, {"p", "e4m3fn"}},
           "sink=last: meets the sink after the keys");
    shaped(n, {}, {{"tile", "1"}, {"denominator", "cast"}, {"p", "e4m3fn"}}, "denominator=cast");
    shaped(n, {}, {{"tile", "1"}, {"promote", "1"}, {"pv", "f16"}}, "promote: then added in f32");
    shaped(n, {}, {{"tile", "1"}, {"argument", "rounded"}, {"scores", "bf16"}}, "scores: rounded to once");
    add(n, 1, {}, {}, "exp_ulp: error of exp in ulps of f32; qk, pv, rowsum: how it is summed");
    add(n, 1, {}, {{"exp_ulp", "0.5"}, {"div_ulp", "0.5"}},
        "div_ulp: error of a quotient, or of reciprocal and product");
    add(n, 2, {}, {}, "qk: how q.k is summed");
    add(n, 1, {}, {{"tile", "1"}}, "tile: keys per step of the online softmax");
    for (const char* p : {"f16", "bf16", "e4m3fn", "e5m2"})
      for (const char* denominator : {"exact", "cast"})
        add(n, 1, {}, {{"p", p}, {"denominator", denominator}},
            "p: format of the weights that enter PV; denominator: row sum of weights before or after");
    add(n, 1, {}, {{"p", "e4m3fn"}, {"p_shift", "8"}},
        "p_shift: weights are multiplied by 2^this before the rounding to p");
    add(n, 1, {}, {{"p", "e4m3fn"}, {"p_shift", "8"}, {"denominator", "cast"}},
        "p_shift: weights are multiplied by 2^this before the rounding to p");
    for (const char* type : {"f16", "bf16"}) {
      add(n, 2, {}, {{"qk", type}}, "qk: how q.k is summed");
      add(n, 1, {}, {{"scores", type}}, "scores: format that logits are rounded to");
      add(n, 1, {}, {{"rowsum", type}}, "rowsum: how the row sum is formed");
      add(n, 1, {}, {{"pv", type}, {"p", type}}, "pv: how p.v is summed");
      add(n, 1, {}, {{"out", type}}, "out: format of the result before it is stored");
      add(n, 1, {{"dtype", type}, {"kv", type}}, {}, "out = softmax(cap(scale q k^T)) v");
    }
    add(n, 1, {{"scale", "0.1"}}, {}, "argument: any: or fused with that subtraction");
    add(n, 1, {{"scale", "0.1"}}, {{"argument", "rounded"}},
        "argument: rounded: a logit is rounded before the maximum is subtracted");
    add(n, 1, {{"softcap", "20"}}, {}, "tanh_ulp: error of tanh (softcap)");
    add(n, 1, {{"sinks", "yes"}}, {}, "sinks: one more logit per head in the denominator");
    add(n, 1, {{"sinks", "yes"}}, {{"p", "e4m3fn"}, {"denominator", "cast"}},
        "sinks: one more logit per head in the denominator");
    add(n, 1, {{"alibi", "yes"}}, {}, "alibi: - slope |i - j| added to the logits");
    for (const char* type : {"f16", "bf16"}) {
      add(n, 1, {}, {{"q", type}}, "q: format that q is converted to first, to nearest");
      add(n, 2, {{"kv", "f32"}}, {{"convert", type}},
          "convert: format that K and V are converted to first, to nearest");
    }
    if (has_word("attention", "scaling", "q_rounded"))
      for (const char* scaling : {"scores", "q", "q_rounded"})
        for (const char* dtype : {"f32", "f16"})
          add(n, 2, {{"scale", "0.1"}, {"dtype", dtype}}, {{"scaling", scaling}},
              "scaling: what the softmax scale multiplies");
    if (has_word("attention", "lag", "")) add(n, 1, {}, {{"tile", "1"}, {"lag", "8"}}, "lag: lazy rescaling");
    if (has_word("attention", "weights", "shares"))
      for (const char* p : {"f32", "f16", "e4m3fn"})
        add(n, 1, {}, {{"weights", "shares"}, {"p", p}},
            "weights=shares: divided by the whole row sum first");
    if (n > 1) add(n, 1, {}, {{"split", "2"}}, "split: parts of the keys computed apart and merged in f32");
    if (n > 1)
      add(n, 1, {}, {{"split", "2"}, {"p", "e4m3fn"}},
          "split: parts of the keys computed apart and merged in f32");
  }
  return all;
}

}  // namespace assay::worlds
