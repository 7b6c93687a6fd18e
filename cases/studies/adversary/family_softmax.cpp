// softmax and logsumexp: exp as e or 2^x, two passes or an online pass by tiles, sums in every order.
#include <algorithm>
#include <array>
#include <numeric>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kSoftmaxShape[] = {
    {"rows", "1|1|2|3"},
    {"cols", "1|2|3|8|17|33|64|100|256|1000"},
    {"dtype", "f32|f32|f16|bf16"},
    {"mask", "none|none|causal|random"},
    {"sinks", "no|no|yes"},
    {"softcap", "0|0|30|1|50|1e-3|1e5|30000"},
    {"temperature", "1|1|0.7|2|1e-3|3"},
};
constexpr Axis kLogsumexpShape[] = {
    {"rows", "1|2"},
    {"cols", "1|2|3|8|17|33|64|100|256|1000"},
    {"dtype", "f32|f32|f16|bf16"},
};
constexpr Axis kKernel[] = {
    {"acc", "f32|f32|dtype|f16|f64"},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"quotient", kQuotients},
    {"exp", kExps},
    {"exp_ulp", "0.5|1|2|8|100"},
    {"tanh_ulp", "0.5|1|4|100|8192"},
    {"log_ulp", "0.5|1|2|100"},
    {"sides", kSides},
    {"log_abs", "0|0|3.6e-07|1e-3"},
    {"base", "e|e|2"},
    {"sink", "last|first|apart"},
    {"maximum", "all|all|keys|rounded"},
    {"empty", "nan|nan|zero"},
    {"masked", "skipped|placed"},
    {"keep", "again|kept"},
    {"tiles", "0|0|2|7|64"},
    {"weights", "f32|f32|f16|bf16"},
    ASSAY_STORE_AXES,
    kFlush,
};

// What is said of a function. In f64 it is the C library's, which is rounded to nearest nearly always.
double ulps(const Choices& c, const std::string& name) {
  return std::max(positive_number(c, name), choice(c, "acc") == "f64" ? 1.0 : 0.0);
}

void say_exp_sum(const Attributes& a, const Choices& c, Words& words) {
  const std::int64_t tile = static_cast<std::int64_t>(positive_number(c, "tiles"));
  const bool sink = a.all().contains("sinks") && a.text("sinks") == "yes";
  const std::int64_t n = a.integer("cols") + (sink ? 1 : 0);
  words.say("acc", choice(c, "acc"));
  // An online sum goes through its tiles: the order inside of one is not the order of the whole.
  words.say("order", order_word(choice(c, "sum"), tile == 0 && choice(c, "say") == "sharp"));
  words.say("exp", choice(c, "exp") == "e" ? "e" : "base2");
  words.say("exp_ulp", ulps(c, "exp_ulp"));
  if (tile > 0)  // the first tile begins a sum
    words.say("rescales", static_cast<double>((n + tile - 1) / tile - 1));
}

void softmax_contract(const Attributes& a, const Choices& c, Words& words) {
  say_exp_sum(a, c, words);
  words.say("tanh_ulp", ulps(c, "tanh_ulp"));
  words.say("div_ulp", quotient_ulp(choice(c, "quotient")));
  words.say("weights", choice(c, "weights"));
  words.say("empty", choice(c, "empty"));
  say_store(c, words);
}

struct Sum {
  double max = -kInf, sum = 0;
  std::vector<double> weight;  // against max
};

// Where the logits stand in their row: masked ones have a place and the weight 0, a sink has none.
struct Places {
  std::vector<std::int64_t> of;
  std::int64_t count = 0;
  bool sink = false;  // the last logit
};

double weight_of(const Arithmetic& m, const Problem& p, double s, double max, int side) {
  return exp_difference(m, s, max, p.text("exp"), p.number("exp_ulp"), side);
}

// The sum of a row's weights in its declared order: masked terms in their places or passed over, a sink
// first, last or apart.
double sum_of(const Arithmetic& m, const Problem& p, const std::vector<double>& w, const Places& places) {
  std::vector<double> terms(w.begin(), places.sink ? w.end() - 1 : w.end());
  if (p.is("masked", "placed")) {
    std::vector<double> row(static_cast<std::size_t>(places.count), 0.0);
    for (std::size_t j = 0; j < terms.size(); ++j) row[places.of[j]] = terms[j];
    terms = std::move(row);
  }
  if (places.sink && p.is("sink", "first")) terms.insert(terms.begin(), w.back());
  if (places.sink && !p.is("sink", "first") && !p.is("sink", "apart")) terms.push_back(w.back());
  const double sum = ordered_sum(m, terms, p.text("sum"), p.seed());
  return places.sink && p.is("sink", "apart") ? m.add(w.back(), sum) : sum;
}

// Whether weights are kept in a narrower type than the one they are computed in.
bool is_narrow(const Problem& p) { return !p.is("weights", "f32") || p.is("acc", "f64"); }

Sum exp_sum(const Arithmetic& m, const Problem& p, const std::vector<double>& s, const Places& places,
            const Sides& sides) {
  Sum r;
  const std::int64_t n = static_cast<std::int64_t>(s.size());
  const std::int64_t tile = static_cast<std::int64_t>(p.number("tiles"));
  const auto side = [&](std::int64_t i) { return p.is("exp_ulp", "0.5") ? 0 : sides.of(i); };
  const auto of = [&](std::int64_t first, std::int64_t count, double max) {
    std::vector<double> w;
    for (std::int64_t i = first; i < first + count; ++i) w.push_back(weight_of(m, p, s[i], max, side(i)));
    return w;
  };
  if (tile == 0) {
    const auto largest = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) r.max = s[i] > r.max || std::isnan(s[i]) ? s[i] : r.max;
    };
    largest(s.size() - (places.sink && p.is("maximum", "keys") ? 1 : 0));
    if (r.max == -kInf) largest(s.size());                   // no key has a weight
    if (p.is("maximum", "rounded")) r.max = m.round(r.max);  // an input may be wider than what holds it
    r.weight = of(0, n, r.max);
    std::vector<double> terms = r.weight;
    if (p.is("defect", "last_dropped")) terms.back() = 0;
    r.sum = sum_of(m, p, terms, places);
    return r;
  }
  const Arithmetic kept(p.text("weights"), p.is("ftz", "yes"));
  const bool keeps = p.is("keep", "kept") && p.op.name == "softmax", narrow = is_narrow(p);
  std::vector<double> top(s.size(), -kInf);  // the maximum of a kept weight's time
  for (std::int64_t first = 0; first < n; first += tile) {
    const std::int64_t count = std::min(tile, n - first);
    double max = r.max;
    for (std::int64_t i = first; i < first + count; ++i) max = s[i] > max || std::isnan(s[i]) ? s[i] : max;
    const std::vector<double> w = max == -kInf ? std::vector<double>(count, 0.0) : of(first, count, max);
    for (std::int64_t i = 0; i < count; ++i) {
      r.weight.push_back(keeps && narrow ? kept.round(w[i]) : w[i]);
      top[first + i] = max;
    }
    if (max == -kInf) continue;  // nothing was seen yet
    const double own = ordered_sum(m, w, p.text("sum"), p.seed());
    const double factor = r.max == -kInf ? 0 : weight_of(m, p, r.max, max, side(first));
    r.sum = r.max == -kInf ? own : m.add(m.mul(r.sum, factor), own);
    r.max = max;
  }
  if (!keeps) {
    r.weight = of(0, n, r.max);
    return r;
  }
  for (std::int64_t i = 0; i < n; ++i)
    if (top[i] != r.max && top[i] != -kInf)
      r.weight[i] = m.mul(r.weight[i], weight_of(m, p, top[i], r.max, side(i)));
  return r;
}

double capped(const Arithmetic& m, const Problem& p, double x, int side) {
  const double temperature = p.attributes.real("temperature"), softcap = p.attributes.real("softcap");
  if (temperature != 1) x = quotient(m, x, m.round(temperature), p.text("quotient"), side);
  if (softcap == 0) return x;
  const double inner = quotient(m, x, m.round(softcap), p.text("quotient"), side);
  // Of an infinity every library gives 1 (C23, annex F).
  const double t =
      std::isinf(inner) ? std::copysign(1, inner) : m.within(std::tanh(inner), p.number("tanh_ulp"), side);
  return m.mul(std::clamp(t, -1.0, 1.0), m.round(softcap));
}

bool is_empty(const std::vector<double>& s) {
  return std::ranges::all_of(s, [](double each) { return each == -kInf; });
}

Outputs softmax_run(const Problem& p) {
  const Arithmetic m(p.text("acc"), p.is("ftz", "yes"), p.text("flush")),
      kept(p.text("weights"), p.is("ftz", "yes"));
  const Sides sides(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 7));
  const std::vector<double>& x = p.tensor("x");
  const std::int64_t rows = p.attributes.integer("rows"), cols = p.attributes.integer("cols");
  Outputs out(1, std::vector<double>(x.size(), 0.0));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> s;
    std::vector<std::int64_t> at;
    for (std::int64_t i = 0; i < cols; ++i) {
      if (p.attributes.text("mask") == "causal" && i > cols - rows + r) continue;
      if (p.has("mask") && p.tensor("mask")[r * cols + i] == 0) continue;
      s.push_back(capped(m, p, m.read(x[r * cols + i]), sides.of(i)));
      at.push_back(i);
    }
    if (s.empty()) continue;
    if (p.has("sinks")) s.push_back(m.read(p.tensor("sinks")[r]));
    const Sum e = exp_sum(m, p, s, {at, cols, p.has("sinks")}, sides);
    const bool is_kept = p.is("keep", "kept") && p.number("tiles") > 0;  // rounded already
    for (std::int64_t i = 0; i < cols; ++i)                              // what is masked has the weight 0
      out[0][r * cols + i] = std::isnan(e.sum) || std::isnan(e.max) ? std::nan("") : 0;
    for (std::size_t j = 0; j < at.size(); ++j) {
      double w = e.weight[j];
      if (is_narrow(p) && !is_kept) w = kept.round(w);
      const double y = quotient(m, w, e.sum, p.text("quotient"), sides.of(static_cast<std::int64_t>(j)));
      out[0][r * cols + at[j]] = store(p, y, p.attributes.text("dtype"));
    }
    if (s.size() > 0 && (e.max == -kInf || e.sum == 0))
      for (std::int64_t i = 0; i < cols; ++i)
        out[0][r * cols + i] = p.is("empty", "zero") && is_empty(s) ? 0 : std::nan("");
  }
  return out;
}

void logsumexp_contract(const Attributes& a, const Choices& c, Words& words) {
  say_exp_sum(a, c, words);
  words.say("log_ulp", ulps(c, "log_ulp"));
  words.say("log_abs", positive_number(c, "log_abs"));
  words.say("base", choice(c, "base") == "2" ? "2" : "e");
  say_store(c, words);
}

Outputs logsumexp_run(const Problem& p) {
  const Arithmetic m(p.text("acc"), p.is("ftz", "yes"), p.text("flush"));
  const Sides sides(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 7));
  const std::vector<double>& x = p.tensor("x");
  const std::size_t cols = static_cast<std::size_t>(p.attributes.integer("cols"));
  Outputs out(1);
  for (std::size_t first = 0; first < x.size(); first += cols) {
    std::vector<double> s(x.begin() + static_cast<std::ptrdiff_t>(first),
                          x.begin() + static_cast<std::ptrdiff_t>(first + cols));
    bool nan = false;
    double max = -kInf;
    for (double& each : s) each = m.read(each), nan = nan || std::isnan(each), max = std::max(max, each);
    if (nan || std::isinf(max)) {  // an infinite maximum has no difference: a kernel answers by hand
      out[0].push_back(nan ? std::nan("") : max);
      continue;
    }
    std::vector<std::int64_t> at(cols);
    std::iota(at.begin(), at.end(), 0);
    const Sum e = exp_sum(m, p, s, {at, static_cast<std::int64_t>(cols), false}, sides);
    const auto log_of = [&](double exact) {
      const double near = e.sum >= 0.5 && e.sum <= 2 ? p.number("log_abs") * 0.999 : 0;
      return m.within(exact + sides.of(1) * near, p.number("log_ulp"), sides.of(1));
    };
    if (!p.is("base", "2")) {
      out[0].push_back(store(p, m.add(e.max, log_of(std::log(e.sum))), "f32"));
    } else {  // log2 of the sum beside M log2 e, or all of it times log2 e
      const double c = m.round(1.4426950408889634);
      const double y = sides.of(2) >= 0 ? m.add(m.mul(e.max, c), log_of(std::log2(e.sum)))
                                        : m.mul(m.add(e.max, log_of(std::log(e.sum))), c);
      out[0].push_back(store(p, y, "f32"));
    }
  }
  return out;
}

}  // namespace

extern const Family kSoftmaxFamily{"softmax",      "softmax",        kSoftmaxShape, kKernel,
                                   "last_dropped", softmax_contract, softmax_run};
extern const Family kLogsumexpFamily{"logsumexp",    "logsumexp",        kLogsumexpShape, kKernel,
                                     "last_dropped", logsumexp_contract, logsumexp_run};

}  // namespace assay::adversary
