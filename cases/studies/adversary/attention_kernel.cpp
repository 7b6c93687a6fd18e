#include "cases/studies/adversary/attention_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cases/studies/adversary/units.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::adversary {

double attention_tanh_ulps(const Choices& c) {
  const std::string& how = choice(c, "tanh");
  // tanh.approx.f32: 2^-11 relative (PTX ISA), so at most 2^13 ulps.
  return how == "exact" ? 0.5 : how == "approx" ? 8192.0 : positive_number(c, "tanh");
}

std::string attention_element(const Attributes& a, const Choices& c) {
  if (choice(c, "convert") != "none") return choice(c, "convert");
  return std::string(format(a.text("k")).element);
}

namespace {

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
        qk_(scalar_of("qk")),
        pv_(scalar_of("pv")),
        rowsum_(p.text("rowsum")),
        sides_(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 16)),
        element_(p.choices.contains("unit") ? attention_element(p.attributes, p.choices) : "f32") {
    if (element_ == "f32") return;
    unit_ = &unit_of(p.text("unit"), element_, element_, static_cast<std::int64_t>(p.number("pick")));
  }

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
  // A matrix unit stands in place of `qk` and `pv` where there is one.
  Arithmetic scalar_of(const char* name) const {
    return Arithmetic(p_.choices.contains("unit") ? "f32" : p_.text(name));
  }

  void load(std::int64_t b, std::int64_t kv) {
    const std::int64_t n = problem_.length(b);
    k_.resize(static_cast<std::size_t>(n * geometry_.d)),
        v_.resize(static_cast<std::size_t>(n * geometry_.dv));
    problem_.decode_k(b, kv, 0, n, k_.data());
    problem_.decode_v(b, kv, 0, n, v_.data());
    k_scale_ = v_scale_ = 1;
    if (unit_ != nullptr && p_.is("convert", "none")) {
      k_scale_ = to_codes(problem_.k(), kv, k_);
      v_scale_ = to_codes(problem_.v(), kv, v_);
      return;
    }
    for (std::vector<double>* each : {&k_, &v_})
      for (double& x : *each) {
        x = f32_.round(x);
        if (!p_.is("convert", "none")) x = Arithmetic(p_.text("convert")).round(x);
      }
  }

  // Decoded numbers to their codes, which a unit multiplies; the scale that all of them share.
  double to_codes(const Encoded& tensor, std::int64_t kv, std::vector<double>& x) const {
    const Format& f = format(tensor.format);
    if (f.kind != FormatKind::scaled) return 1;
    const double scale = static_cast<double>(stored_scale(tensor, f, kv * tensor.shape.back()));
    for (double& each : x) each /= scale;  // exact, as the product was
    return scale;
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

  // The same by the unit: blocks in memory order, or the terms rearranged first; from c, or in chains of `count` from zero.
  double by_unit(std::vector<double> x, std::string_view x_format, std::vector<double> y,
                 const std::string& count, double c) const {
    Draw draw(p_.seed());
    if (p_.is("blocks", "perm"))
      for (std::size_t i = x.size(); i > 1; --i) {
        const auto other = static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i)));
        std::swap(x[i - 1], x[other]), std::swap(y[i - 1], y[other]);
      }
    if (count == "none") return unit_dot(*unit_, x, x_format, y, element_, c);
    const std::size_t size = static_cast<std::size_t>(std::strtoll(count.c_str(), nullptr, 10));
    for (std::size_t at = 0; at < x.size(); at += size) {
      const std::size_t own = std::min(size, x.size() - at);
      c = f32_.add(c, unit_dot(*unit_, std::span(x).subspan(at, own), x_format, std::span(y).subspan(at, own),
                               element_, 0));
    }
    return c;
  }

  // A tile's terms onto a running sum: one after the other, or their own sum first.
  double onto(const Arithmetic& m, double sum, std::vector<double> x, std::vector<double> y) const {
    if (!p_.is("sum", "seq"))
      return m.add(sum, ordered_sum(m, x, y, p_.text("sum"), p_.is("fused", "yes"), p_.seed()));
    x.insert(x.begin(), sum);
    if (!y.empty()) y.insert(y.begin(), 1);
    return ordered_sum(m, x, y, "seq", p_.is("fused", "yes"), 0);
  }

  double dot(const AttentionQuery& q, std::int64_t j) const {
    const std::size_t d = static_cast<std::size_t>(geometry_.d);
    const std::span<const double> k(k_.data() + static_cast<std::size_t>(j) * d, d);
    if (unit_ != nullptr) return by_unit(q.x, element_, {k.begin(), k.end()}, p_.text("chunk"), 0);
    if (q.block_scales.empty()) return chunked(qk_, q.x, k, p_.text("chunk"));
    if (p_.is("q_sums",
              "integers")) {  // a block's products are integers times one scale: exact until it is applied
      std::vector<double> sums;
      for (std::size_t at = 0; at < d; at += 32) {
        double sum = 0;
        for (std::size_t i = at; i < at + 32; ++i) sum += q.x[i] * k[i];
        sums.push_back(qk_.round(sum * q.block_scales[at / 32]));
      }
      return ordered_sum(qk_, sums, "seq", 0);
    }
    std::vector<double> x(q.x);
    for (std::size_t i = 0; i < d; ++i) x[i] *= q.block_scales[i / 32];
    return chunked(qk_, x, k, p_.text("chunk"));
  }

  double logit(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t j,
               const AttentionQuery& q) const {
    double sigma = scales_q() ? 1 : f32_.round(geometry_.scale);
    if (k_scale_ != 1) sigma = f32_.mul(sigma, k_scale_);
    if (q.scale != 1) sigma = f32_.mul(sigma, q.scale);
    double s = f32_.mul(dot(q, j), sigma);
    if (geometry_.softcap > 0) {
      const double c = f32_.round(geometry_.softcap);
      const double inner = p_.is("quotient", "exact") ? f32_.div(s, c) : f32_.mul(s, f32_.div(1, c));
      const double capped = std::isnan(inner) ? inner
                                              : f32_.within(std::tanh(inner), attention_tanh_ulps(p_.choices),
                                                            side_of(tanh_sides_, inner, j));
      s = f32_.mul(std::clamp(capped, -1.0, 1.0), c);
    }
    if (geometry_.alibi)
      s = f32_.sub(s, f32_.mul(f32_.round(problem_.slope(h)),
                               std::fabs(static_cast<double>(problem_.position(b, r) - j))));
    if (!p_.is("scores", "f32")) s = Arithmetic(p_.text("scores")).round(s);
    return s;
  }

  // A function gives one result for one argument: the side is that of the key which came first.
  int side_of(std::map<double, int>& sides, double argument, std::int64_t j) const {
    return sides.emplace(argument, sides_.of(j)).first->second;
  }

  double exp_of(double a, double b, std::int64_t j) const {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == -kInf) return 0;
    // Of a fused difference the argument is not a - b alone, and each may have its own.
    const int side = p_.is("exp", "base2_fused") ? sides_.of(j) : side_of(exp_sides_, f32_.sub(a, b), j);
    return exp_difference(f32_, a, b, p_.text("exp"), p_.number("exp_ulp"), side);
  }

  // w to its format, shifted; what PV multiplies.
  double cast(double w) const {
    const double shifted = std::ldexp(w, static_cast<int>(p_.number("p_shift")));
    if (p_.is("p", "f32")) return f32_.round(shifted);
    return round_to(scalar_format(p_.text("p")), shifted);
  }

  // o times a factor: in f32, or in the register that a unit's sums chain through.
  double rescaled(double o, double factor) const {
    if (unit_ == nullptr) return p_.is("promote", "none") ? pv_.mul(o, factor) : f32_.mul(o, factor);
    const double z = f32_.mul(o, factor);
    if (!p_.is("promote", "none") || unit_->out == "f32") return z;
    return unit_->out == "f16" ? round_f16(z) : static_cast<double>(truncate_e8m13(static_cast<float>(z)));
  }

  void rescale(Part& part, double max, std::int64_t j) const {
    if (part.max != -kInf) {
      const double factor = exp_of(part.max, max, j);
      part.sum = rowsum_.mul(part.sum, factor);
      for (double& o : part.out) o = rescaled(o, factor);
    }
    part.max = max;
  }

  double values_onto(double out, const std::vector<double>& weights,
                     const std::vector<double>& column) const {
    if (unit_ != nullptr) return by_unit(weights, p_.text("p"), column, p_.text("promote"), out);
    if (p_.is("promote", "none")) return onto(pv_, out, weights, column);
    return f32_.add(out, chunked(pv_, weights, column, p_.text("promote")));
  }

  // The keys [first, last) in tiles from `first`, onto `part`; x and seen are of every key.
  Part part_of(Part part, std::int64_t first, std::int64_t last, const std::vector<double>& x,
               const std::vector<std::uint8_t>& seen) const {
    const std::size_t dv = static_cast<std::size_t>(geometry_.dv);
    const double lag = p_.choices.contains("lag") ? p_.number("lag") : 0;
    const std::int64_t tile =
        p_.is("tile", "none") ? last - first : static_cast<std::int64_t>(p_.number("tile"));
    const double down = std::ldexp(1.0, -static_cast<int>(p_.number("p_shift")));
    for (std::int64_t at = first; at < last; at += tile) {
      const std::int64_t end = std::min(at + tile, last);
      double max = part.max;
      for (std::int64_t i = at; i < end; ++i)
        if (seen[i]) max = std::isnan(x[i]) ? x[i] : std::max(max, x[i]);
      if (max == -kInf) continue;
      if (max > part.max + lag || std::isnan(max) || part.max == -kInf) rescale(part, max, at);
      part.any = true;
      std::vector<double> terms, weights;
      std::vector<std::int64_t> keys;
      for (std::int64_t i = at; i < end; ++i) {
        if (seen[i]) {
          terms.push_back(exp_of(x[i], part.max, i));
          weights.push_back(cast(terms.back()));
          keys.push_back(i);
        } else if (
            unit_ !=
            nullptr) {  // a unit's blocks are of all keys of the tile: a hidden one is multiplied by zero
          weights.push_back(0), keys.push_back(-1);
        }
      }
      if (p_.is("denominator", "cast")) {
        terms.clear();
        for (std::size_t i = 0; i < weights.size(); ++i)
          if (keys[i] >= 0) terms.push_back(weights[i] * down);
      }
      if (p_.is("defect", "last_key_unsummed") && end == last) terms.back() = 0;
      part.sum = onto(rowsum_, part.sum, terms, {});
      std::vector<double> column(keys.size());
      for (std::size_t c = 0; c < dv; ++c) {
        for (std::size_t i = 0; i < keys.size(); ++i)
          column[i] = keys[i] < 0 ? 0 : v_[static_cast<std::size_t>(keys[i]) * dv + c];
        part.out[c] = values_onto(part.out[c], weights, column);
      }
    }
    for (double& o : part.out) o = f32_.mul(o, down);
    return part;
  }

  void row(std::int64_t b, std::int64_t r, std::int64_t h, double* out) const {
    AttentionQuery q = converted_query(p_, problem_.q(b, r, h));
    if (scales_q())
      for (double& each : q.x) each = f32_.mul(each, f32_.round(geometry_.scale));
    const std::int64_t n = problem_.length(b), split = static_cast<std::int64_t>(p_.number("split"));
    std::vector<double> x(static_cast<std::size_t>(n), -kInf);
    std::vector<std::uint8_t> seen(x.size());
    const KeyRange range = problem_.range(b, r);
    bool any = false;
    for (std::int64_t j = range.first; j < range.last; ++j)
      if (problem_.visible(b, r, j)) seen[j] = 1, x[j] = logit(b, r, h, j, q), any = true;
    const std::size_t dv = static_cast<std::size_t>(geometry_.dv);
    std::fill(out, out + dv, 0.0);
    if (!any) return;
    const std::int64_t size = (geometry_.length + split - 1) / split;
    Part none, all;
    none.out.assign(dv, 0.0);
    all = none;
    const bool before = geometry_.sinks && p_.is("sink", "before");
    if (before) all.max = f32_.round(problem_.sink(h)), all.sum = 1, all.any = true;
    for (std::int64_t first = 0; first < n; first += size) {
      const std::int64_t last = std::min(first + size, n);
      if (split == 1) {
        all = part_of(all, first, last, x, seen);
        continue;
      }
      const Part own = part_of(none, first, last, x, seen);
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
    if (geometry_.sinks && !before) add_sink(all, h);
    std::vector<double> o(dv);
    for (std::size_t i = 0; i < dv; ++i) {
      o[i] =
          quotient(f32_, all.out[i], all.sum, p_.text("quotient"), sides_.of(static_cast<std::int64_t>(i)));
      if (v_scale_ != 1) o[i] = f32_.mul(o[i], v_scale_);
    }
    if (geometry_.rotate == RotateKind::qkv) unrotate_row(p_, o);
    for (std::size_t i = 0; i < dv; ++i) out[i] = store(p_, o[i], geometry_.dtype);
  }

  // Codes and their scales are multiplied first, and so is what a unit takes.
  bool scales_q() const {
    return p_.choices.contains("scaling") && p_.is("scaling", "q") && unit_ == nullptr &&
           (p_.is("q", "none") || p_.is("q", "f16") || p_.is("q", "bf16"));
  }

  void add_sink(Part& all, std::int64_t h) const {
    const double sink = f32_.round(problem_.sink(h)), max = std::max(all.max, sink);
    if (p_.is("sink", "first")) {  // in the running maximum
      const double factor = exp_of(all.max, max, 0);
      all.sum = f32_.add(f32_.mul(all.sum, factor), exp_of(sink, max, 1));
      for (double& o : all.out) o = f32_.mul(o, factor);
    } else {
      all.sum = f32_.add(all.sum, exp_of(sink, all.max, 1));
    }
  }

  const Problem& p_;
  AttentionGeometry geometry_;
  AttentionProblem problem_;
  Arithmetic f32_, qk_, pv_, rowsum_;
  Sides sides_;
  mutable std::map<double, int> tanh_sides_, exp_sides_;
  std::string element_;
  const MatrixUnit* unit_ = nullptr;
  std::vector<double> k_, v_;
  double k_scale_ = 1, v_scale_ = 1;
};

}  // namespace

Outputs run_attention(const Problem& p) { return Kernel(p).run(); }

}  // namespace assay::adversary
