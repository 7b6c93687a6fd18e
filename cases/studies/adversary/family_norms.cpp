// rmsnorm and layernorm: sums in every order, fused or not, moments by two passes, one pass or Welford's
// recurrence in lanes that Chan's formula merges, products in every order.
#include <algorithm>
#include <array>

#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {
namespace {

constexpr Axis kShape[] = {
    {"rows", "1|1|2"},
    {"cols", "1|2|3|8|17|33|64|100|256|256|1000|4096|16384"},
    {"dtype", "f32|f32|f16|bf16"},
    {"eps", "1e-5|1e-5|1e-6|1e-12|1e-30|1"},
};
constexpr Axis kKernel[] = {
    {"acc", "f32|f32|dtype|f16"},
    {"sum", kSums},
    {"say", "any|sharp|sharp"},
    {"fused", "no|yes"},
    {"quotient", kQuotients},
    {"rsqrt_ulp", "0.5|1|2|4|100"},
    {"sides", kSides},
    {"mid", "acc|acc|f16|bf16"},
    {"product", "normal|normal|gamma_inverse|x_gamma"},
    {"variance", "two_pass|one_pass|welford|welford"},
    {"merge", "delta|weighted|counts|quotients|step"},
    ASSAY_STORE_AXES,
    kFlush,
};

void say_norm(const Choices& c, Words& words) {
  words.say("acc", choice(c, "acc"));
  words.say("order", order_word(choice(c, "sum"), choice(c, "say") == "sharp"));
  words.say("rsqrt_ulp", positive_number(c, "rsqrt_ulp"));
  words.say("div_ulp", quotient_ulp(choice(c, "quotient")));
  const std::string& mid = choice(c, "mid");
  if (mid != "acc")
    words.say("mid", mid);
  else if (!words.say("mid", "acc"))
    words.say("mid", choice(c, "acc"));
  say_store(c, words);
}

// Only a kernel that rounds nothing before gamma takes the products in another order.
void say_product(const Choices& c, bool normal, Words& words) {
  const std::string& product = choice(c, "product");
  const bool rounds = choice(c, "mid") != "acc" && choice(c, "mid") != choice(c, "acc");
  words.say("product", choice(c, "say") != "sharp"               ? "any"
                       : normal || rounds || product == "normal" ? "x_inv_gamma"
                       : product == "x_gamma"                    ? "x_gamma_inv"
                                                                 : "gamma_inv_x");
}

struct Machinery {
  Arithmetic m;
  std::string mid;
  Sides sides;
};
Machinery machinery(const Problem& p) {
  return {Arithmetic(p.text("acc"), p.is("ftz", "yes"), p.text("flush")),
          p.is("mid", "acc") ? p.text("acc") : p.text("mid"),
          Sides(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 7))};
}

double inverse_root(const Arithmetic& m, double v, const Problem& p, int side) {
  return m.within(1 / std::sqrt(m.read(v)), p.number("rsqrt_ulp"), side);
}

// The normalised number times gamma.
double gained(const Machinery& k, const Problem& p, double x, double inverse, double gamma) {
  const Arithmetic& m = k.m;
  if (k.mid == p.text("acc") && p.is("product", "x_gamma")) return m.mul(m.mul(x, gamma), inverse);
  if (k.mid == p.text("acc") && p.is("product", "gamma_inverse")) return m.mul(x, m.mul(gamma, inverse));
  double z = m.mul(x, inverse);
  if (k.mid != p.text("acc")) z = Arithmetic(k.mid, p.is("ftz", "yes")).round(z);
  return m.mul(z, gamma);
}

std::string dtype_of(const Problem& p) { return p.attributes.text("dtype"); }

// As stored: an operation on them rounds its result alone, so that a narrow accumulator needs no cast that is
// not declared.
std::vector<double> numbers_of(const Arithmetic& m, const double* x, std::size_t n) {
  std::vector<double> row(x, x + n);
  for (double& each : row) each = m.read(each);
  return row;
}

void rms_contract(const Attributes&, const Choices& c, Words& words) {
  say_norm(c, words);
  say_product(c, false, words);
}

Outputs rms_run(const Problem& p) {
  const Machinery k = machinery(p);
  const Arithmetic& m = k.m;
  const std::vector<double>&x = p.tensor("x"), &gamma = p.tensor("gamma");
  const std::size_t n = gamma.size();
  Outputs out(1, std::vector<double>(x.size()));
  for (std::size_t first = 0; first < x.size(); first += n) {
    std::vector<double> row = numbers_of(m, x.data() + first, n);
    if (p.is("defect", "last_dropped")) row.back() = 0;
    double sum = ordered_sum(m, row, row, p.text("sum"), p.is("fused", "yes"), p.seed());
    if (p.is("defect", "coarse_sum")) sum = Arithmetic("bf16").round(sum);
    const double mean = quotient(m, sum, m.round(static_cast<double>(n)), p.text("quotient"), k.sides.of(0));
    const double inverse = inverse_root(m, m.add(mean, m.round(p.attributes.real("eps"))), p, k.sides.of(1));
    for (std::size_t i = 0; i < n; ++i)
      out[0][first + i] = store(p, gained(k, p, row[i], inverse, m.read(gamma[i])), dtype_of(p));
  }
  return out;
}

struct Moments {
  double n = 0, mean = 0, squares = 0;
};

// Welford's update; quotients by the declared division.
void update(const Arithmetic& m, const Problem& p, Moments& s, double x, int side) {
  s.n += 1;
  const double before = m.sub(x, s.mean);
  s.mean = m.add(s.mean, quotient(m, before, m.round(s.n), p.text("quotient"), side));
  s.squares = m.accumulate(s.squares, before, m.sub(x, s.mean), p.is("fused", "yes"));
}

// Chan, Golub, LeVeque 1983; what PyTorch's and Apex's lane-wise kernels do.
Moments merged(const Arithmetic& m, const Problem& p, const Moments& a, const Moments& b, int side) {
  if (a.n == 0 || b.n == 0) return a.n == 0 ? b : a;
  const double delta = m.sub(b.mean, a.mean), n = a.n + b.n;
  const auto over_n = [&](double x) { return quotient(m, x, m.round(n), p.text("quotient"), side); };
  if (p.is("merge", "quotients") ||
      p.is("merge", "step")) {  // the quotient by n first, times the counts then
    const bool step = p.is("merge", "step");
    const double by_count = step ? m.mul(delta, over_n(delta)) : over_n(m.mul(delta, delta));
    return {n,
            step ? m.add(a.mean, m.mul(over_n(delta), b.n))
                 : m.add(m.mul(over_n(a.mean), a.n), m.mul(over_n(b.mean), b.n)),
            m.add(m.add(a.squares, b.squares), m.mul(m.mul(by_count, a.n), b.n))};
  }
  const double share = quotient(m, b.n, n, p.text("quotient"), side);
  // PyTorch's merge weighs both means; Apex's moves one of them.
  const double mean =
      p.is("merge", "weighted")
          ? m.add(m.mul(a.mean, quotient(m, a.n, n, p.text("quotient"), side)), m.mul(b.mean, share))
          : m.add(a.mean, m.mul(delta, share));
  Moments r{n, mean, 0};
  const double square = m.mul(delta, delta), counts = m.mul(a.n, b.n);
  r.squares = m.add(m.add(a.squares, b.squares),
                    p.is("merge", "counts")  // as Apex writes it
                        ? quotient(m, m.mul(square, counts), m.round(n), p.text("quotient"), side)
                        : m.mul(m.mul(square, a.n), share));
  return r;
}

Moments welford(const Arithmetic& m, const Problem& p, std::span<const double> row, const Sides& sides) {
  const std::string& sum = p.text("sum");
  const std::int64_t n = static_cast<std::int64_t>(row.size());
  const bool blocks = sum.starts_with("blocks:"), lanes = sum.starts_with("lanes:"),
             strided = sum.starts_with("strided:");
  std::int64_t count = blocks             ? (n + count_of(sum) - 1) / count_of(sum)
                       : lanes || strided ? count_of(sum)
                       : sum == "tree"    ? n
                                          : 1;
  count = std::min(count, n);
  std::vector<Moments> parts(static_cast<std::size_t>(count));
  const std::int64_t each = blocks ? count_of(sum) : (n + count - 1) / count;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = sum == "rev" ? n - 1 - i : i;
    update(m, p, parts[static_cast<std::size_t>(strided || sum == "tree" ? at % count : at / each)], row[at],
           sides.of(i));
  }
  if (blocks) {
    for (std::size_t i = 1; i < parts.size(); ++i) parts[0] = merged(m, p, parts[0], parts[i], sides.of(0));
    return parts[0];
  }
  while (parts.size() > 1) {  // a tree of neighbours
    std::vector<Moments> next;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      next.push_back(i + 1 < parts.size()
                         ? merged(m, p, parts[i], parts[i + 1], sides.of(static_cast<std::int64_t>(i)))
                         : parts[i]);
    parts = std::move(next);
  }
  return parts[0];
}

void layer_contract(const Attributes&, const Choices& c, Words& words) {
  words.say("variance", choice(c, "variance"));
  say_norm(c, words);
  say_product(c, choice(c, "fused") == "yes", words);
}

Outputs layer_run(const Problem& p) {
  const Machinery k = machinery(p);
  const Arithmetic& m = k.m;
  const std::vector<double>&x = p.tensor("x"), &gamma = p.tensor("gamma"), &beta = p.tensor("beta");
  const std::size_t n = gamma.size();
  const double count = m.round(static_cast<double>(n));
  const bool fused = p.is("fused", "yes");
  Outputs out(1, std::vector<double>(x.size()));
  for (std::size_t first = 0; first < x.size(); first += n) {
    std::vector<double> row = numbers_of(m, x.data() + first, n);
    double mean = 0, variance = 0;
    if (p.is("variance", "welford")) {
      const Moments s = welford(m, p, row, k.sides);
      mean = s.mean;
      variance = std::max(quotient(m, s.squares, count, p.text("quotient"), k.sides.of(0)), 0.0);
    } else {
      const auto divided = [&](double sum, int i) {
        return quotient(m, sum, count, p.text("quotient"), k.sides.of(i));
      };
      mean = divided(ordered_sum(m, row, p.text("sum"), p.seed()), 0);
      if (p.is("variance", "one_pass")) {
        const double square = divided(ordered_sum(m, row, row, p.text("sum"), fused, p.seed()), 1);
        // A negative variance is no variance: the kernel clamps it.
        variance = std::max(fused ? m.fma(-mean, mean, square) : m.sub(square, m.mul(mean, mean)), 0.0);
      } else {
        std::vector<double> d(n);
        for (std::size_t i = 0; i < n; ++i) d[i] = m.sub(row[i], mean);
        variance = divided(ordered_sum(m, d, d, p.text("sum"), fused, p.seed()), 1);
      }
    }
    if (p.is("defect", "coarse_mean")) mean = Arithmetic("bf16").round(mean);
    if (p.is("defect", "unbiased")) variance *= count / std::max(count - 1, 1.0);
    const double inverse =
        inverse_root(m, m.add(variance, m.round(p.attributes.real("eps"))), p, k.sides.of(2));
    for (std::size_t i = 0; i < n; ++i) {
      const double d = m.sub(row[i], mean), g = m.read(gamma[i]), b = m.read(beta[i]);
      if (!fused)
        out[0][first + i] = store(p, m.add(gained(k, p, d, inverse, g), b), dtype_of(p));
      else
        out[0][first + i] = store(
            p, m.fma(Arithmetic(k.mid, p.is("ftz", "yes")).round(m.mul(d, inverse)), g, b), dtype_of(p));
    }
  }
  return out;
}

}  // namespace

extern const Family kRmsnormFamily{"rmsnorm",    "rmsnorm", kShape, kKernel, "last_dropped|coarse_sum",
                                   rms_contract, rms_run};
extern const Family kLayernormFamily{"layernorm",    "layernorm", kShape, kKernel, "coarse_mean|unbiased",
                                     layer_contract, layer_run};

}  // namespace assay::adversary
