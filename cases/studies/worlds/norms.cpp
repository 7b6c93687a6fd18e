// Worlds of rmsnorm and layernorm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_norms.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

std::vector<double> alphabet(const Arithmetic& a, std::string_view format) {
  if (scalar_format(format).bits <= 8) return numbers(format);
  std::vector<double> some;
  for (const double x : {0.0, 1.0, 1.375, 1.9921875, 3.0, 0.00390625, 0x1p-8, 0x1p-12, 0x1.8p-14, 0x1p-16,
                         0x1p-24, 200.0, 250.0, 255.0, 257.0, 260.0})
    for (const double sign : {1.0, -1.0}) some.push_back(round_to_precision(sign * x, a.precision));
  return set_of(std::move(some));
}

struct Affine {
  double gamma, beta;
};

std::vector<Batch> batches_of(const World& w, int n, std::size_t budget) {
  Norm k;
  const auto number = [&](std::string_view key) { return std::stod(std::string(declared(w, key))); };
  k.acc = arithmetic(declared(w, "acc"), declared(w, "ftz") == "yes");
  k.order = order_of(declared(w, "order"));
  k.rsqrt_ulp = number("rsqrt_ulp");
  k.div_ulp = number("div_ulp");
  k.mid = declared(w, "mid");
  k.product = declared(w, "product");
  k.gamma_format = declared(w, "gamma");
  k.layer = w.op == "layernorm";
  if (k.layer) k.variance = declared(w, "variance");
  k.clamped = meaning(w, "variance").find("clamped at 0") != std::string_view::npos;
  k.reciprocal_length = meaning(w, "div_ulp").find("or of 1/length") != std::string_view::npos;
  k.acc.half_is_nearest = meaning(w, "div_ulp").find("0.5: ") != std::string_view::npos;
  const auto attribute = [&](const char* key, const char* fallback) {
    return w.attributes.contains(key) ? w.attributes.at(key) : std::string(fallback);
  };
  k.eps = std::stod(attribute("eps", "1e-5"));
  const std::string dtype = attribute("dtype", "f32");
  const double least = power_of_two(k.acc.precision.emin);
  std::vector<Batch> all;
  for (const Affine affine : {Affine{1, 0}, Affine{1.5, -1}, Affine{-0.875, 0.25}, Affine{least, least}}) {
    const auto rows = rows_of(alphabet(k.acc, declared(w, "acc")), n, k.order != Order::sequential,
                              std::max<std::size_t>(1, budget / 4 / static_cast<std::size_t>(n)));
    const std::vector<double> gamma(static_cast<std::size_t>(n),
                                    round_to_precision(affine.gamma, k.acc.precision));
    const std::vector<double> beta(static_cast<std::size_t>(n),
                                   round_to_precision(affine.beta, k.acc.precision));
    Batch b;
    const auto count = static_cast<std::int64_t>(rows.size());
    b.attributes = w.attributes;
    b.attributes["rows"] = std::to_string(count);
    b.attributes["cols"] = std::to_string(n);
    std::vector<double> x;
    for (const auto& row : rows) {
      x.insert(x.end(), row.begin(), row.end());
      for (const Set& s : norm_members(k, row, gamma, beta))
        b.members.push_back(overflows(k.acc, s) ? Set{} : stored(s, w, dtype));
    }
    b.inputs["x"] = tensor(dtype, {count, n}, x);
    b.inputs["gamma"] = tensor("f32", {n}, gamma);
    if (k.layer) b.inputs["beta"] = tensor("f32", {n}, beta);
    b.inputs_of = [rows, gamma, beta, n](std::size_t i) {
      return fmt::format("x={} gamma={:a} beta={:a}", hex(rows[i / static_cast<std::size_t>(n)]), gamma[0],
                         beta[0]);
    };
    all.push_back(std::move(b));
  }
  return all;
}

World world(std::string op, int n, Words attributes, Keys contract, std::string sentence) {
  return named(std::move(op), fmt::format("n={}", n), std::move(attributes), std::move(contract),
               std::move(sentence),
               [n](const World& w, std::size_t budget) { return batches_of(w, n, budget); });
}

}  // namespace

std::vector<World> norm_worlds() {
  std::vector<World> all;
  for (const char* op : {"rmsnorm", "layernorm"}) {
    const auto add = [&](int n, Words attributes, std::string acc, std::string ulps, Keys more,
                         const char* why) {
      Keys k{{"acc", std::move(acc)}, {"rsqrt_ulp", ulps}, {"div_ulp", ulps}};
      k.insert(k.end(), more.begin(), more.end());
      all.push_back(world(op, n, std::move(attributes), std::move(k), why));
    };
    const bool layer = std::string(op) == "layernorm";
    for (const char* acc : {"e4m3fn", "e2m3", "e3m2", "e5m2", "f16", "bf16"}) {
      const Words eps{{"eps", acc[0] == 'e' && acc[1] != '5' ? "0.25" : "1e-3"}};
      for (const char* variance : {"two_pass", "one_pass", "welford"}) {
        if (!layer && std::string(variance) != "two_pass") continue;
        const auto with = [&](Keys k) {
          if (layer) k.push_back({"variance", variance});
          return k;
        };
        for (const int n : {1, 2, 3})
          add(n, eps, acc, "0.5", with({}),
              "rsqrt_ulp, div_ulp: units in the last place of acc; variance: the algorithm");
        add(2, eps, acc, "1", with({}), "rsqrt_ulp: error of 1/sqrt, in units in the last place of acc");
        add(2, eps, acc, "2", with({}), "rsqrt_ulp: error of 1/sqrt, in units in the last place of acc");
        add(2, eps, acc, "0.5", with({{"ftz", "yes"}}), "ftz: subnormal inputs and results may become zero");
        add(3, eps, acc, "1", with({{"order", "sequential"}}), "order: in which sums over a row are formed");
      }
      for (const char* product : {"x_inv_gamma", "x_gamma_inv", "gamma_inv_x"})
        add(2, eps, acc, "0.5", {{"product", product}},
            "product: which of x, 1/sqrt and gamma are multiplied first");
    }
    for (const char* mid : {"f16", "bf16"}) {
      add(2, {{"eps", "1e-3"}, {"dtype", mid}}, "bf16", "0.5", {{"mid", mid}},
          "mid: the normalised x is rounded to this before gamma");
      add(2, {{"eps", "1e-3"}, {"dtype", mid}}, "f16", "0.5", {{"mid", mid}, {"ftz", "yes"}},
          "mid: the normalised x is rounded to this before gamma; ftz: subnormal results may become zero");
      add(2, {{"eps", "1e-3"}}, "f16", "0.5", {{"gamma", mid}},
          "gamma: gamma and beta are rounded to this as they are read");
      add(2, {{"eps", "1e-3"}}, "f16", "0.5", {{"out", mid}},
          "out: rounded to this before the output's type");
      for (const char* round : {"nearest_away", "toward_zero"})
        add(2, {{"eps", "1e-3"}, {"dtype", mid}}, "f16", "0.5", {{"round", round}},
            "round: rounding to the output");
    }
    for (const char* order : {"tree", "lanes:2", "blocks:2", "depth:2", "any"})
      add(4, {{"eps", "0.25"}}, "e4m3fn", "0.5", {{"order", order}},
          "order: in which sums over a row are formed");
  }
  return all;
}

}  // namespace assay::worlds
