// wht as a butterfly or as a dense product, argmax as kernels run it.
#include <bit>
#include <cmath>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kWhtShape[] = {
    {"rows", "1|2"},
    {"cols", "64|128|1024"},
    {"points", "1|2|4|16|32|64"},
    {"signs", "none|tq3|random"},
    {"inverse", "no|yes"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kWhtKernel[] = {
    {"acc", "f32|f32|dtype|f16"},
    {"order", "butterfly|butterfly|dense"},
    {"sum", kSums},
    {"say", "any|sharp"},
    {"scale", "before|after|levels"},
    ASSAY_STORE_AXES,
    kFlush,
};

void wht_contract(const Attributes&, const Choices& c, Words& words) {
  words.say("acc", choice(c, "acc"));
  const bool butterfly = choice(c, "order") == "butterfly";
  if (choice(c, "say") == "sharp" && butterfly)
    words.say("order", "butterfly") || words.say("order", "tree");
  else if (choice(c, "say") == "sharp")
    words.say("order", order_word(choice(c, "sum"), true)) || words.say("order", "any");
  else
    words.say("order", "any");
  words.say("scale", butterfly && choice(c, "scale") == "levels" ? "levels" : "once");
  say_store(c, words);
}

Outputs wht_run(const Problem& p) {
  const Arithmetic m(p.text("acc"), p.is("ftz", "yes"), p.text("flush"));
  const std::vector<double>& x = p.tensor("x");
  const std::size_t n = static_cast<std::size_t>(p.attributes.integer("points"));
  const double once = m.round(1 / std::sqrt(static_cast<double>(n))), level = m.round(std::sqrt(0.5));
  const bool inverse = p.attributes.text("inverse") == "yes", butterfly = p.is("order", "butterfly");
  const std::string scale = butterfly || !p.is("scale", "levels") ? p.text("scale") : "after";
  Outputs out(1, std::vector<double>(x.size()));
  const auto flipped = [&](std::size_t i, double value) {
    if (!p.has("signs")) return value;
    const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(p.tensor("signs")[i / 32]));
    return ((word >> (i % 32)) & 1) != 0 ? -value : value;
  };
  for (std::size_t first = 0; first < x.size(); first += n) {
    std::vector<double> v(n), y(n);
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = inverse ? m.read(x[first + i]) : flipped(i, m.read(x[first + i]));
      if (scale == "before") v[i] = m.mul(v[i], once);
    }
    if (p.is("defect", "last_dropped")) v[n - 1] = 0;
    if (butterfly) {
      for (std::size_t h = 1; h < n; h *= 2)
        for (std::size_t i = 0; i < n; ++i) {
          if ((i & h) != 0) continue;
          const double a = v[i], b = v[i + h];
          v[i] = m.add(a, b), v[i + h] = m.sub(a, b);
          if (scale == "levels") v[i] = m.mul(v[i], level), v[i + h] = m.mul(v[i + h], level);
        }
      y = v;
    } else {
      std::vector<double> terms(n);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) terms[j] = std::popcount(i & j) % 2 == 0 ? v[j] : -v[j];
        y[i] = ordered_sum(m, terms, p.text("sum"), p.seed());
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (scale == "after") y[i] = m.mul(y[i], once);
      out[0][first + i] = store(p, inverse ? flipped(i, y[i]) : y[i], p.attributes.text("dtype"));
    }
  }
  return out;
}

constexpr Axis kArgmaxShape[] = {
    {"rows", "1|4"}, {"cols", "1|2|3|33|100"}, {"dtype", "f32|f16|bf16"}, {"checked", "no|yes"}};
constexpr Axis kArgmaxKernel[] = {{"nan", "never|wins"}};

void argmax_contract(const Attributes&, const Choices& c, Words& words) {
  words.say("nan", choice(c, "nan") == "wins" ? "wins" : "loses");
}

Outputs argmax_run(const Problem& p) {
  const std::vector<double>& x = p.tensor("x");
  const std::int64_t cols = p.attributes.integer("cols");
  Outputs out(1);
  for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(cols)) {
    std::int64_t best = 0, nan = -1;
    for (std::int64_t i = 0; i < cols; ++i) {
      if (nan < 0 && std::isnan(x[first + i])) nan = i;
      if (p.is("defect", "last_of_equals") ? x[first + i] >= x[first + best] : x[first + i] > x[first + best])
        best = i;
    }
    if (p.is("nan", "wins") && nan >= 0) best = nan;  // what PyTorch returns
    out[0].push_back(
        static_cast<double>(p.attributes.text("checked") == "yes" && nan >= 0 ? -(nan + 1) : best));
  }
  return out;
}

}  // namespace

extern const Family kWhtFamily{"wht", "wht", kWhtShape, kWhtKernel, "last_dropped", wht_contract, wht_run};
extern const Family kArgmaxFamily{"argmax",         "argmax",        kArgmaxShape, kArgmaxKernel,
                                  "last_of_equals", argmax_contract, argmax_run};

}  // namespace assay::adversary
