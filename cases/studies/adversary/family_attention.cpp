// attention: an online softmax over tiles of keys and parts of a split, logits and products summed in every order, weights cast
// and shifted, row sums and accumulators in f32 or f16.
#include <algorithm>
#include <array>
#include <cmath>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kShape[] = {
    {"heads", "1|1|2"},
    {"d", "1|2|8|32|64"},
    {"dv", "1|2|8"},
    {"q", "1|1|2"},
    {"len", "1|2|3|17|64|100|100|300|1000"},
    {"kv", "f16|f16|f32|bf16|e4m3fn_tensor|int8_tok"},
    {"dtype", "f32|f32|f16|bf16"},
    {"mask", "none|none|causal"},
    {"softcap", "0|0|0|30|1|50"},
    {"sinks", "no|no|yes"},
    {"alibi", "no|no|no|yes"},
    {"scale", "0|0|1|0.01|8"},
};
constexpr Axis kKernel[] = {
    {"qk", "f32|f32|f32|f16"},
    {"chunk", "none|none|16"},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"fused", "no|yes"},
    {"scores", "f32|f32|f32|f16|bf16"},
    {"convert", "none|none|f16|bf16"},
    {"q", "none|none|f16|bf16"},
    {"tile", "none|1|16|64"},
    {"exp", kExps},
    {"exp_ulp", "0.5|1|2|8"},
    {"tanh", "exact|1|4|approx"},
    {"quotient", kQuotients},
    {"sides", kSides},
    {"p", "f32|f32|f16|bf16|e4m3fn"},
    {"p_shift", "0|0|0|8"},
    {"denominator", "exact|cast"},
    {"rowsum", "f32|f32|f16"},
    {"pv", "f32|f32|f16"},
    {"promote", "none|none|32"},
    {"split", "1|1|2|4"},
    {"sink", "first|last"},
    {"level", "detap|detap|detord|ca"},
    {kStoreAxes[0][0], kStoreAxes[0][1]},
};

double tanh_ulps(const Choices& c) {
  const std::string& how = choice(c, "tanh");
  // tanh.approx.f32: 2^-11 relative (PTX ISA), so at most 2^13 ulps.
  return how == "exact" ? 0.5 : how == "approx" ? 8192.0 : positive_number(c, "tanh");
}

void contract(const Attributes& a, const Choices& c, Words& words) {
  const std::int64_t length = a.integer("len"),
                     split = static_cast<std::int64_t>(positive_number(c, "split"));
  for (const char* key : {"qk", "scores", "convert", "q", "exp_ulp", "p", "p_shift", "denominator", "rowsum",
                          "pv", "split", "level"})
    words.say(key, choice(c, key));
  words.say("exp", choice(c, "exp") == "e" ? "e" : "base2");
  if (choice(c, "chunk") != "none") words.say("chunk", choice(c, "chunk"));
  if (choice(c, "promote") != "none") words.say("promote", choice(c, "promote"));
  words.say("tile", choice(c, "tile") == "none" ? static_cast<double>(length) : positive_number(c, "tile"));
  if (split > 1) words.say("part", static_cast<double>((length + split - 1) / split));
  if (!words.say("tanh_ulp", tanh_ulps(c))) words.say("tanh_ulp", "4");
  words.say("div_ulp", quotient_ulp(choice(c, "quotient")));
  const std::string& sum = choice(c, "sum");
  const bool whole = split == 1 && choice(c, "say") == "sharp",
             tree = sum == "tree" || sum.starts_with("blocks:");
  // Tiles of a part of a split begin elsewhere.
  const bool sequential = sum == "seq" && choice(c, "promote") == "none" && choice(c, "chunk") == "none";
  if (!whole || !words.say("order", sequential ? "sequential" : "tiles")) words.say("order", "any");
  words.say("qk_order", order_word(sum, choice(c, "say") == "sharp"));
  if (choice(c, "promote") != "none") words.say("pv_order", order_word(sum, choice(c, "say") == "sharp"));
  if (tree) words.say("rowsum_order", order_word(sum, choice(c, "say") == "sharp"));
  if (choice(c, "exp") == "e") words.say("argument", "rounded");
  words.say("out", choice(c, "out"));
}

struct Part {
  double max = -kInf, sum = 0;
  std::vector<double> out;
  bool any = false;
};

class Kernel {
 public:
  explicit Kernel(const Problem& p)
      : p_(p),
        geometry_(attention_geometry(p.attributes)),
        problem_(p.attributes, p.set),
        f32_("f32"),
        qk_(p.text("qk")),
        pv_(p.text("pv")),
        rowsum_(p.text("rowsum")),
        sides_(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 16)) {}

  Outputs run() {
    Outputs out(1, std::vector<double>(static_cast<std::size_t>(problem_.out_size())));
    for (std::int64_t b = 0; b < geometry_.batch; ++b)
      for (std::int64_t h = 0; h < geometry_.heads; ++h) {
        load(b, problem_.kv_head(h));
        for (std::int64_t r = 0; r < geometry_.rows; ++r)
          row(b, r, h, out[0].data() + problem_.out_index(b, r, h));
      }
    return out;
  }

 private:
  void load(std::int64_t b, std::int64_t kv) {
    const std::int64_t n = problem_.length(b);
    k_.resize(static_cast<std::size_t>(n * geometry_.d)),
        v_.resize(static_cast<std::size_t>(n * geometry_.dv));
    problem_.decode_k(b, kv, 0, n, k_.data());
    problem_.decode_v(b, kv, 0, n, v_.data());
    for (std::vector<double>* each : {&k_, &v_})
      for (double& x : *each) {
        x = f32_.round(x);
        if (!p_.is("convert", "none")) x = Arithmetic(p_.text("convert")).round(x);
      }
  }

  double chunked(const Arithmetic& m, std::span<const double> x, std::span<const double> y,
                 const std::string& count) const {
    const std::size_t n = x.size();
    if (count == "none") return ordered_sum(m, x, y, p_.text("sum"), p_.is("fused", "yes"), p_.seed());
    const std::size_t size = static_cast<std::size_t>(std::strtoll(count.c_str(), nullptr, 10));
    double sum = 0;
    for (std::size_t at = 0; at < n; at += size) {
      const std::size_t own = std::min(size, n - at);
      sum = f32_.add(sum, ordered_sum(m, x.subspan(at, own), y.subspan(at, own), p_.text("sum"),
                                      p_.is("fused", "yes"), p_.seed()));
    }
    return sum;
  }

  // A tile's terms onto a running sum: one after the other, or their own sum first.
  double onto(const Arithmetic& m, double sum, std::vector<double> x, std::vector<double> y) const {
    if (!p_.is("sum", "seq"))
      return m.add(sum, ordered_sum(m, x, y, p_.text("sum"), p_.is("fused", "yes"), p_.seed()));
    x.insert(x.begin(), sum);
    if (!y.empty()) y.insert(y.begin(), 1);
    return ordered_sum(m, x, y, "seq", p_.is("fused", "yes"), 0);
  }

  double logit(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t j,
               std::span<const double> q) const {
    const std::size_t d = static_cast<std::size_t>(geometry_.d);
    double s = f32_.mul(chunked(qk_, q, {k_.data() + static_cast<std::size_t>(j) * d, d}, p_.text("chunk")),
                        f32_.round(geometry_.scale));
    if (geometry_.softcap > 0) {
      const double c = f32_.round(geometry_.softcap);
      const double inner = p_.is("quotient", "exact") ? f32_.div(s, c) : f32_.mul(s, f32_.div(1, c));
      const double capped =
          std::isnan(inner) ? inner : f32_.within(std::tanh(inner), tanh_ulps(p_.choices), sides_.of(j));
      s = f32_.mul(std::clamp(capped, -1.0, 1.0), c);
    }
    if (geometry_.alibi)
      s = f32_.sub(s, f32_.mul(f32_.round(problem_.slope(h)),
                               std::fabs(static_cast<double>(problem_.position(b, r) - j))));
    if (!p_.is("scores", "f32")) s = Arithmetic(p_.text("scores")).round(s);
    return s;
  }

  double exp_of(double a, double b, std::int64_t j) const {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == -kInf) return 0;
    return exp_difference(f32_, a, b, p_.text("exp"), p_.number("exp_ulp"), sides_.of(j));
  }

  // w to its format, shifted; what PV multiplies.
  double cast(double w) const {
    const double shifted = std::ldexp(w, static_cast<int>(p_.number("p_shift")));
    if (p_.is("p", "f32")) return f32_.round(shifted);
    return round_to(scalar_format(p_.text("p")), shifted);
  }

  void rescale(Part& part, double max, std::int64_t j) const {
    if (part.any && part.max != -kInf) {
      const double factor = exp_of(part.max, max, j);
      part.sum = rowsum_.mul(part.sum, factor);
      for (double& o : part.out) o = p_.is("promote", "none") ? pv_.mul(o, factor) : f32_.mul(o, factor);
    }
    part.max = max;
  }

  Part part_of(std::int64_t first, std::int64_t last, const std::vector<double>& x,
               const std::vector<std::int64_t>& keys) const {
    Part part;
    const std::size_t dv = static_cast<std::size_t>(geometry_.dv);
    part.out.assign(dv, 0.0);
    const std::int64_t tile =
        p_.is("tile", "none") ? last - first : static_cast<std::int64_t>(p_.number("tile"));
    const double down = std::ldexp(1.0, -static_cast<int>(p_.number("p_shift")));
    for (std::int64_t at = first; at < last; at += tile) {
      const std::int64_t end = std::min(at + tile, last);
      double max = part.max;
      for (std::int64_t i = at; i < end; ++i) max = std::isnan(x[i]) ? x[i] : std::max(max, x[i]);
      if (max == -kInf) continue;
      if (max > part.max || std::isnan(max)) rescale(part, max, at);
      part.any = true;
      std::vector<double> w, cast_w, column(static_cast<std::size_t>(end - at));
      for (std::int64_t i = at; i < end; ++i)
        w.push_back(exp_of(x[i], part.max, keys[i])), cast_w.push_back(cast(w.back()));
      std::vector<double> terms = w;
      if (p_.is("denominator", "cast"))
        for (std::size_t i = 0; i < w.size(); ++i) terms[i] = cast_w[i] * down;
      if (p_.is("defect", "last_key_unsummed") && end == last) terms.back() = 0;
      part.sum = onto(rowsum_, part.sum, terms, {});
      for (std::size_t c = 0; c < dv; ++c) {
        for (std::int64_t i = at; i < end; ++i)
          column[i - at] = v_[static_cast<std::size_t>(keys[i]) * dv + c];
        part.out[c] = p_.is("promote", "none")
                          ? onto(pv_, part.out[c], cast_w, column)
                          : f32_.add(part.out[c], chunked(pv_, cast_w, column, p_.text("promote")));
      }
    }
    for (double& o : part.out) o = f32_.mul(o, down);
    return part;
  }

  void row(std::int64_t b, std::int64_t r, std::int64_t h, double* out) const {
    std::vector<double> q(problem_.q(b, r, h).begin(), problem_.q(b, r, h).end()), x;
    if (!p_.is("q", "none"))
      for (double& each : q) each = Arithmetic(p_.text("q")).round(each);
    std::vector<std::int64_t> keys;
    const KeyRange range = problem_.range(b, r);
    for (std::int64_t j = range.first; j < range.last; ++j)
      if (problem_.visible(b, r, j)) keys.push_back(j), x.push_back(logit(b, r, h, j, q));
    const std::size_t dv = static_cast<std::size_t>(geometry_.dv);
    std::fill(out, out + dv, 0.0);
    if (keys.empty()) return;
    const std::int64_t n = static_cast<std::int64_t>(keys.size()),
                       split = static_cast<std::int64_t>(p_.number("split"));
    const std::int64_t size = (geometry_.length + split - 1) / split;
    Part all;
    all.out.assign(dv, 0.0);
    for (std::int64_t first = 0; first < n; first += size) {
      const Part own = part_of(first, std::min(first + size, n), x, keys);
      if (!own.any) continue;
      if (!all.any) {
        all = own;
        continue;
      }
      const double max = std::max(all.max, own.max), a = exp_of(all.max, max, 0), c = exp_of(own.max, max, 1);
      all.sum = f32_.add(f32_.mul(all.sum, a), f32_.mul(own.sum, c));
      for (std::size_t i = 0; i < dv; ++i)
        all.out[i] = f32_.add(f32_.mul(all.out[i], a), f32_.mul(own.out[i], c));
      all.max = max;
    }
    if (geometry_.sinks) {
      const double sink = f32_.round(problem_.sink(h)), max = std::max(all.max, sink);
      if (p_.is("sink", "first")) {  // in the running maximum
        const double factor = exp_of(all.max, max, 0);
        all.sum = f32_.add(f32_.mul(all.sum, factor), exp_of(sink, max, 1));
        for (double& o : all.out) o = f32_.mul(o, factor);
      } else {
        all.sum = f32_.add(all.sum, exp_of(sink, all.max, 1));
      }
    }
    for (std::size_t i = 0; i < dv; ++i) {
      const double o =
          quotient(f32_, all.out[i], all.sum, p_.text("quotient"), sides_.of(static_cast<std::int64_t>(i)));
      out[i] = store(p_, o, geometry_.dtype);
    }
  }

  const Problem& p_;
  AttentionGeometry geometry_;
  AttentionProblem problem_;
  Arithmetic f32_, qk_, pv_, rowsum_;
  Sides sides_;
  std::vector<double> k_, v_;
};

Outputs run(const Problem& p) { return Kernel(p).run(); }

}  // namespace

extern const Family kAttentionFamily{"attention",         "attention", kShape, kKernel,
                                     "last_key_unsummed", contract,    run};

}  // namespace assay::adversary
