#include "cases/studies/adversary/attention_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cases/studies/adversary/attention_online.hpp"
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

std::int64_t attention_part(const Attributes& a, const Choices& c) {
  const std::int64_t length = a.integer("len"),
                     split = static_cast<std::int64_t>(positive_number(c, "split"));
  const std::int64_t tile = choice(c, "tile") == "none" || choice(c, "merge") == "states"
                                ? 1
                                : static_cast<std::int64_t>(positive_number(c, "tile"));
  const std::int64_t tiles = (length + tile - 1) / tile;
  return (tiles + split - 1) / split * tile;
}

namespace {

class Kernel {
 public:
  explicit Kernel(const Problem& p)
      : p_(p),
        geometry_(attention_geometry(p.attributes)),
        problem_(p.attributes, p.set),
        sums_(p),
        online_(p, sums_),
        f32_("f32"),
        sides_(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 16)),
        mask_(mask_of(p)) {
    if (p.is("v_inverse", "row")) problem_.defer_inverse();
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
  void load(std::int64_t b, std::int64_t kv) {
    const std::int64_t n = problem_.length(b);
    k_.resize(static_cast<std::size_t>(n * geometry_.d)),
        v_.resize(static_cast<std::size_t>(n * geometry_.dv));
    problem_.decode_k(b, kv, 0, n, k_.data());
    problem_.decode_v(b, kv, 0, n, v_.data());
    k_scale_ = v_scale_ = 1;
    if (sums_.unit() != nullptr && p_.is("convert", "none")) {
      k_scale_ = to_codes(problem_.k(), kv, k_);
      v_scale_ = to_codes(problem_.v(), kv, v_);
      return;
    }
    for (std::vector<double>* each : {&k_, &v_})
      for (double& x : *each) {
        x = f32_.round(x);
        if (!p_.is("convert", "none")) x = as_operand(p_, p_.text("convert"), x);
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

  // What the scale of the softmax is in front of an exp of base 2, where log2 e is a part of it.
  double times_log2e(double x) const { return online_.folds() ? f32_.mul(x, f32_.round(kLog2E)) : x; }

  double logit(std::int64_t b, std::int64_t r, std::int64_t h, std::int64_t j,
               const AttentionQuery& q) const {
    double sigma = scales_q() ? 1 : times_log2e(f32_.round(geometry_.scale));
    if (k_scale_ != 1) sigma = f32_.mul(sigma, k_scale_);
    if (q.scale != 1) sigma = f32_.mul(sigma, q.scale);
    const auto d = static_cast<std::size_t>(geometry_.d);
    double s = f32_.mul(sums_.dot(q, {k_.data() + static_cast<std::size_t>(j) * d, d}), sigma);
    if (geometry_.softcap > 0) {
      const double c = f32_.round(geometry_.softcap);
      const double inner = p_.is("quotient", "exact") ? f32_.div(s, c) : f32_.mul(s, f32_.div(1, c));
      const double capped = std::isnan(inner) ? inner
                                              : f32_.within(std::tanh(inner), attention_tanh_ulps(p_.choices),
                                                            side_of_tanh(inner, j));
      s = f32_.mul(std::clamp(capped, -1.0, 1.0), c);
    }
    if (geometry_.alibi)
      s = f32_.sub(s, f32_.mul(f32_.round(problem_.slope(h)),
                               std::fabs(static_cast<double>(problem_.position(b, r) - j))));
    if (!p_.is("scores", "f32")) s = as_cast(p_, p_.text("scores"), s, Overflow::ieee);
    return s;
  }

  // A function gives one result for one argument: the side is that of the key which came first.
  int side_of_tanh(double argument, std::int64_t j) const {
    return tanh_sides_.emplace(argument, sides_.of(j)).first->second;
  }

  // Codes and their scales are multiplied first, and so is what a unit takes.
  bool scales_q() const {
    return (p_.is("scaling", "q") || p_.is("scaling", "q_rounded")) && sums_.unit() == nullptr &&
           (p_.is("q", "none") || p_.is("q", "f16") || p_.is("q", "bf16") || p_.is("q", "tf32"));
  }
  void scale_q(AttentionQuery& q) const {
    const std::string& to = p_.is("q", "none") ? geometry_.dtype : p_.text("q");
    const double scale = f32_.round(geometry_.scale);
    for (double& each : q.x) {
      each = times_log2e(f32_.mul(each, scale));
      if (p_.is("scaling", "q_rounded")) each = as_operand(p_, to, each);
    }
  }

  void row(std::int64_t b, std::int64_t r, std::int64_t h, double* out) const {
    AttentionQuery q = converted_query(p_, problem_.q(b, r, h));
    if (scales_q()) scale_q(q);
    std::vector<double> x(static_cast<std::size_t>(problem_.length(b)), -kInf);
    std::vector<std::uint8_t> seen(x.size());
    bool any = false;
    std::int64_t first = problem_.range(b, r).first;
    for (std::int64_t j = 0; j < problem_.length(b); ++j) {
      const bool is_visible = problem_.visible(b, r, j);
      if (is_visible || mask_ != 0) x[j] = logit(b, r, h, j, q);
      if (!is_visible && mask_ != 0) x[j] = f32_.add(x[j], mask_);
      seen[j] = is_visible || mask_ != 0;
      any |= is_visible || (mask_ != 0 && std::isfinite(mask_));
    }
    const auto dv = static_cast<std::size_t>(geometry_.dv);
    std::fill(out, out + dv, p_.is("empty", "nan") ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    if (!any && p_.is("empty", "mean") && !geometry_.sinks) {  // equal logits
      std::ranges::fill(x, 0.0), std::ranges::fill(seen, 1);
      any = !x.empty(), first = 0;
    }
    if (!any) return;
    const double sink = times_log2e(f32_.round(problem_.sink(h)));
    std::vector<double> o = online_.outputs({x, seen, v_, first}, attention_part(p_.attributes, p_.choices),
                                            dv, geometry_.sinks ? &sink : nullptr);
    if (v_scale_ != 1)
      for (double& each : o) each = f32_.mul(each, v_scale_);
    if (geometry_.rotate == RotateKind::qkv || p_.is("v_inverse", "row")) unrotate_row(p_, o);
    for (std::size_t i = 0; i < dv; ++i) out[i] = stored(o[i]);
  }

  double stored(double z) const {
    if (!p_.is("casts", "cut")) return store(p_, z, geometry_.dtype);
    const std::string& out = p_.text("out");
    if (out != "none" && out != "dtype") z = as_cast(p_, out, z, Overflow::ieee);
    return as_cast(p_, std::string(geometry_.dtype), z, Overflow::ieee);
  }

  // What is added to the logits of hidden keys: -Inf, the lowest number of f32 (which is one in base e
  // alone, and no number in narrower formats), or nothing: they are skipped.
  static double mask_of(const Problem& p) {
    const bool holds = p.is("scores", "f32") && (p.is("exp", "e") || p.is("exp", "base2"));
    if (p.is("empty", "mean") && holds) return -static_cast<double>(std::numeric_limits<float>::max());
    return p.is("hidden", "added") && !p.is("empty", "mean") ? -kInf : 0;
  }

  static constexpr double kLog2E = 1.4426950408889634;
  const Problem& p_;
  AttentionGeometry geometry_;
  AttentionProblem problem_;
  AttentionSums sums_;
  AttentionOnline online_;
  Arithmetic f32_;
  Sides sides_;
  double mask_;
  mutable std::map<double, int> tanh_sides_;
  std::vector<double> k_, v_;
  double k_scale_ = 1, v_scale_ = 1;
};

}  // namespace

Outputs run_attention(const Problem& p) { return Kernel(p).run(); }

}  // namespace assay::adversary
