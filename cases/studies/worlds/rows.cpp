// Worlds of softmax and logsumexp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_rows.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

Exponentials exponentials_of(const World& w) {
  const auto number = [&](std::string_view key) { return std::stod(std::string(declared(w, key))); };
  const auto attribute = [&](const char* key, double fallback) {
    const auto at = w.attributes.find(key);
    return at == w.attributes.end() ? fallback : std::stod(at->second);
  };
  Exponentials k;
  k.acc = arithmetic(declared(w, "acc"), declared(w, "ftz") == "yes");
  k.acc.half_is_nearest = meaning(w, "div_ulp").find("0.5: ") != std::string_view::npos;
  k.order = order_of(declared(w, "order"));
  k.ended_by_sink = meaning(w, "order").find("a sink is first or last") != std::string_view::npos;
  k.kept_in_time = meaning(w, "weights").find("against the maximum of its time") != std::string_view::npos;
  k.exp_ulp = number("exp_ulp");
  k.base2 = declared(w, "exp") == "base2";
  k.rescales = static_cast<int>(number("rescales"));
  if (w.op == "softmax") {
    k.div_ulp = number("div_ulp");
    k.tanh_ulp = number("tanh_ulp");
    k.weights = declared(w, "weights") == "acc" ? "f32" : declared(w, "weights");  // not rounded
    k.temperature = attribute("temperature", 1);
    k.softcap = attribute("softcap", 0);
    k.has_sink = w.attributes.contains("sinks") && w.attributes.at("sinks") == "yes";
  } else {
    k.log_ulp = number("log_ulp");
    if (has_word(w.op, "log_abs", "")) k.log_abs = number("log_abs");
    k.base2_log = has_word(w.op, "base", "2") && declared(w, "base") == "2";
  }
  return k;
}

// Numbers of a format from which inputs are drawn: all of a toy; of f16 and bf16 a lattice and the ends of
// the range of exp.
std::vector<double> alphabet(const Arithmetic& a, std::string_view format) {
  if (scalar_format(format).bits <= 8) return numbers(format);
  std::vector<double> some;
  for (const double x :
       {0.0, 0x1p-24, 0x1p-14, 0.0078125, 0.34375, 0.5,  0.693359375, 1.0,  1.375, 2.75, 5.5,  7.5,  8.5,
        9.0, 9.5,     10.0,    11.0,      15.75,   16.5, 17.0,        44.0, 87.0,  88.5, 92.0, 100.0})
    for (const double sign : {1.0, -1.0}) some.push_back(round_to_precision(sign * x, a.precision));
  return set_of(std::move(some));
}

std::vector<Batch> batches_of(const World& w, int n, std::size_t budget) {
  Exponentials k = exponentials_of(w);
  const std::string dtype = w.attributes.contains("dtype") ? w.attributes.at("dtype") : "f32";
  const bool sorted = k.order == Order::any || w.op == "logsumexp";
  const bool softmax = w.op == "softmax";
  // A softmax does not change when all logits do, but for the rounding of differences: the largest is any
  // number.
  const auto from = alphabet(k.acc, declared(w, "acc"));
  auto rows =
      rows_of(from, n + (k.has_sink ? 1 : 0), sorted && !k.has_sink, std::max<std::size_t>(1, budget / n));
  Batch b;
  b.attributes = w.attributes;
  b.attributes["rows"] = std::to_string(rows.size());
  b.attributes["cols"] = std::to_string(n);
  const bool masked = w.attributes.contains("mask");
  std::vector<double> x, sinks, mask;
  for (const auto& row : rows) {
    const std::vector<double> logits(row.begin(), row.begin() + n);
    x.insert(x.end(), logits.begin(), logits.end());
    if (k.has_sink) sinks.push_back(k.sink = row.back());
    if (masked) {
      // Every mask in turn that leaves a logit.
      const unsigned bits =
          1 + static_cast<unsigned>(x.size() / static_cast<std::size_t>(n)) % ((1U << n) - 1);
      k.visible.clear();
      std::vector<double> seen;
      for (int j = 0; j < n; ++j) {
        k.visible.push_back((bits >> j & 1) != 0);
        mask.push_back(k.visible.back() ? 1 : 0);
        if (k.visible.back()) seen.push_back(logits[static_cast<std::size_t>(j)]);
      }
      const std::vector<Set> of_seen = softmax_members(k, seen);
      std::size_t at = 0;
      for (const bool v : k.visible) {
        const Set s = v ? of_seen[at++] : Set{0};
        b.members.push_back(overflows(k.acc, s) ? Set{} : stored(s, w, dtype));
      }
      continue;
    }
    std::vector<Set> results =
        softmax ? softmax_members(k, logits) : std::vector<Set>{logsumexp_members(k, logits)};
    for (const Set& s : results) {
      b.members.push_back(overflows(k.acc, s) ? Set{} : stored(s, w, softmax ? dtype : "f32"));
    }
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  b.inputs["x"] = tensor(dtype, {count, n}, x);
  if (masked) b.inputs["mask"] = tensor("int8", {count, n}, mask);
  if (k.has_sink) b.inputs["sinks"] = tensor("f32", {count}, sinks);
  b.inputs_of = [rows = std::move(rows), n, softmax, mask](std::size_t i) {
    const std::size_t first = i - i % static_cast<std::size_t>(n);
    const std::string masks = mask.empty()
                                  ? ""
                                  : "mask=" +
                                        hex({mask.begin() + static_cast<std::ptrdiff_t>(first),
                                             mask.begin() + static_cast<std::ptrdiff_t>(first) + n}) +
                                        " ";
    return masks + "x" + std::string(rows[0].size() > static_cast<std::size_t>(n) ? ",sink" : "") + "=" +
           hex(rows[softmax ? i / static_cast<std::size_t>(n) : i]);
  };
  return {b};
}

World world(std::string op, int n, Words attributes, Keys contract, std::string sentence) {
  return named(std::move(op), fmt::format("n={}", n), std::move(attributes), std::move(contract),
               std::move(sentence),
               [n](const World& w, std::size_t budget) { return batches_of(w, n, budget); });
}

constexpr auto kUlp = "exp_ulp: error of exp, in units in the last place of acc";
constexpr auto kDiv = "div_ulp: error of a quotient, or of reciprocal and product";
constexpr auto kOrder = "order: in which the sum is formed; any: every association and permutation";
constexpr auto kBase2 = "base2: exp2(log2(e) (s - m)), two more roundings";
constexpr auto kFtz = "ftz: subnormal inputs and results may become zero";
constexpr auto kOnline = "rescales: changes of an online kernel's maximum";
constexpr auto kWeights =
    "weights: format in which exp is kept between the pass that sums it and the quotient";
constexpr auto kStore = "out: rounded to this before the output's type; round: rounding to the output";

}  // namespace

std::vector<World> row_worlds() {
  std::vector<World> all;
  const auto add = [&](const char* op, int n, Words attributes, Keys keys, const char* why) {
    all.push_back(world(op, n, std::move(attributes), std::move(keys), why));
  };
  const Keys sharp{{"exp_ulp", "0.5"}};
  for (const char* op : {"softmax", "logsumexp"}) {
    const std::string last = std::string(op) == "softmax" ? "div_ulp" : "log_ulp";
    const auto keys = [&](std::string acc, std::string exp_ulp, std::string last_ulp, Keys more = {}) {
      Keys k{{"acc", std::move(acc)}, {"exp_ulp", std::move(exp_ulp)}, {last, std::move(last_ulp)}};
      k.insert(k.end(), more.begin(), more.end());
      return k;
    };
    for (const char* acc : {"e4m3fn", "e2m3", "e3m2", "e5m2", "e2m1", "f16", "bf16"}) {
      for (const int n : {1, 2, 3}) add(op, n, {}, keys(acc, "0.5", "0.5"), kUlp);
      add(op, 2, {}, keys(acc, "1", "1"), kUlp);
      add(op, 2, {}, keys(acc, "2", "2"), kUlp);
      add(op, 2, {}, keys(acc, "0.5", "0.5", {{"ftz", "yes"}}), kFtz);
      add(op, 2, {}, keys(acc, "1", "1", {{"exp", "base2"}}), kBase2);
      add(op, 2, {}, keys(acc, "1", "1", {{"exp", "base2"}, {"ftz", "yes"}}), kBase2);
      add(op, 3, {}, keys(acc, "0.5", "0.5", {{"rescales", "1"}}), kOnline);
      add(op, 3, {}, keys(acc, "0.5", "0.5", {{"rescales", "2"}, {"order", "sequential"}}), kOnline);
      add(op, 3, {}, keys(acc, "1", "1", {{"rescales", "2"}, {"ftz", "yes"}}), kOnline);
    }
    for (const char* order : {"sequential", "tree", "lanes:2", "blocks:2", "depth:2"})
      add(op, 4, {}, keys("e4m3fn", "0.5", "0.5", {{"order", order}}), kOrder);
    add(op, 4, {}, keys("e4m3fn", "0.5", "0.5"), kOrder);
  }
  // Worlds in which one term is larger than all others.
  for (const char* acc : {"f16", "bf16", "e4m3fn", "e5m2"}) {
    for (const int n : {1, 2, 3}) {
      add("logsumexp", n, {}, {{"acc", acc}, {"exp_ulp", "0.5"}, {"log_ulp", "8"}},
          "log_ulp: error of log, in units in the last place of acc");
      if (has_word("logsumexp", "log_abs", ""))
        add("logsumexp", n, {}, {{"acc", acc}, {"exp_ulp", "0.5"}, {"log_ulp", "0.5"}, {"log_abs", "0.25"}},
            "log_abs: absolute error of log between 1/2 and 2, besides log_ulp");
      if (has_word("logsumexp", "base", "2"))
        add("logsumexp", n, {}, {{"acc", acc}, {"exp_ulp", "0.5"}, {"log_ulp", "1"}, {"base", "2"}},
            "base: of the logarithm that is stored");
    }
    for (const char* op : {"softmax", "logsumexp"}) {
      const char* last = std::string(op) == "softmax" ? "div_ulp" : "log_ulp";
      for (const char* rescales : {"1", "2"})
        add(op, 3, {},
            {{"acc", acc}, {"exp_ulp", "4"}, {last, "0.5"}, {"rescales", rescales}, {"order", "sequential"}},
            kOnline);
      add(op, 2, {}, {{"acc", acc}, {"exp_ulp", "0.5"}, {last, "0.5"}, {"exp", "base2"}}, kBase2);
    }
    add("softmax", 2, {{"softcap", "4"}},
        {{"acc", acc}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}, {"tanh_ulp", "16"}},
        "tanh_ulp: error of tanh (softcap)");
    add("softmax", 2, {{"temperature", "3"}}, {{"acc", acc}, {"exp_ulp", "0.5"}, {"div_ulp", "8"}},
        "temperature: x is divided by it");
  }
  for (const char* dtype : {"f16", "bf16"}) {
    for (const char* round : {"nearest_even", "nearest_away", "toward_zero"})
      add("softmax", 2, {{"dtype", dtype}},
          {{"acc", "e4m3fn"}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}, {"round", round}}, kStore);
    add("softmax", 2, {{"dtype", dtype}},
        {{"acc", dtype}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}, {"ftz", "yes"}}, kFtz);
    add("softmax", 2, {{"dtype", "f32"}},
        {{"acc", "f16"}, {"exp_ulp", "1"}, {"div_ulp", "1"}, {"out", dtype}}, kStore);
  }
  for (const char* weights : {"f16", "bf16", "e4m3fn"}) {
    const Keys k{
        {"acc", "f16"}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}, {"weights", weights}, {"rescales", "1"}};
    add("softmax", 2, {}, k, kWeights);
    add("softmax", 3, {}, k, kWeights);
  }
  for (const char* weights : {"f16", "bf16", "e4m3fn", "e5m2"})
    for (const char* ftz : {"no", "yes"}) {
      add("softmax", 2, {},
          {{"acc", "f16"}, {"exp_ulp", "1"}, {"div_ulp", "1"}, {"weights", weights}, {"ftz", ftz}}, kWeights);
      add("softmax", 2, {},
          {{"acc", "e4m3fn"}, {"exp_ulp", "1"}, {"div_ulp", "1"}, {"weights", weights}, {"ftz", ftz}},
          kWeights);
    }
  for (const char* acc : {"e4m3fn", "e5m2", "f16"}) {
    const Keys k{{"acc", acc}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}};
    for (const char* order : {"any", "sequential", "tree", "lanes:2"}) {
      Keys ordered = k;
      ordered.push_back({"order", order});
      add("softmax", 3, {{"sinks", "yes"}}, ordered,
          "sinks: one more logit per row in the denominator; order");
    }
    for (const char* order : {"any", "sequential", "tree", "lanes:2", "blocks:2"}) {
      Keys ordered = k;
      ordered.push_back({"order", order});
      add("softmax", 4, {{"mask", "random"}}, ordered,
          "mask: which logits are visible; order: masked terms have places");
    }
    if (has_word("softmax", "round", "stochastic") && std::string(acc) == "f16") {
      Keys drawn = k;
      drawn.push_back({"round", "stochastic"});
      for (const char* dtype : {"f16", "bf16"})
        add("softmax", 2, {{"dtype", dtype}}, drawn, "round=stochastic: to either neighbour");
    }
    add("softmax", 2, {{"temperature", "2"}}, k,
        "temperature: x is divided by it; div_ulp: error of a quotient");
    add("softmax", 2, {{"temperature", "0.75"}}, k,
        "temperature: x is divided by it; div_ulp: error of a quotient");
    const Keys cap{{"acc", acc}, {"exp_ulp", "0.5"}, {"div_ulp", "0.5"}, {"tanh_ulp", "1"}};
    add("softmax", 2, {{"softcap", "4"}}, cap,
        "softcap: c in c tanh(s / c); tanh_ulp: error of tanh (softcap)");
    Keys flushed = cap;
    flushed.push_back({"ftz", "yes"});
    add("softmax", 2, {{"softcap", "4"}}, flushed,
        "softcap: c in c tanh(s / c); ftz: subnormal inputs and results may become zero");
    flushed = k;
    flushed.push_back({"ftz", "yes"});
    add("softmax", 2, {{"temperature", "2"}}, flushed,
        "temperature: x is divided by it; ftz: subnormal results may become zero");
  }
  return all;
}

}  // namespace assay::worlds
