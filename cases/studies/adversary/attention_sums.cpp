#include "cases/studies/adversary/attention_sums.hpp"

#include <algorithm>
#include <cmath>

#include "cases/studies/adversary/units.hpp"

namespace assay::adversary {
namespace {

// A matrix unit stands in place of `qk` and `pv` where there is one.
Arithmetic scalar_of(const Problem& p, const char* name) {
  return Arithmetic(p.choices.contains("unit") ? "f32" : p.text(name));
}

}  // namespace

AttentionSums::AttentionSums(const Problem& p)
    : p_(p),
      f32_("f32"),
      qk_(scalar_of(p, "qk")),
      pv_(scalar_of(p, "pv")),
      rowsum_(p.text("rowsum")),
      element_(p.choices.contains("unit") ? attention_element(p.attributes, p.choices) : "f32") {
  if (element_ == "f32") return;
  unit_ = &unit_of(p.text("unit"), element_, element_, static_cast<std::int64_t>(p.number("pick")));
}

double AttentionSums::chunked(const Arithmetic& m, std::span<const double> x, std::span<const double> y,
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

// The same by the unit: blocks in memory order, or the terms rearranged first; from c, or in chains of
// `count` from zero.
double AttentionSums::by_unit(std::vector<double> x, std::string_view x_format, std::vector<double> y,
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
double AttentionSums::onto(const Arithmetic& m, double sum, std::vector<double> x,
                           std::vector<double> y) const {
  if (!p_.is("sum", "seq"))
    return m.add(sum, ordered_sum(m, x, y, p_.text("sum"), p_.is("fused", "yes"), p_.seed()));
  x.insert(x.begin(), sum);
  if (!y.empty()) y.insert(y.begin(), 1);
  return ordered_sum(m, x, y, "seq", p_.is("fused", "yes"), 0);
}

double AttentionSums::dot(const AttentionQuery& q, std::span<const double> k) const {
  const std::size_t d = k.size();
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

double AttentionSums::values_onto(double out, const std::vector<double>& weights,
                                  const std::vector<double>& column) const {
  if (unit_ != nullptr) return by_unit(weights, p_.text("p"), column, p_.text("promote"), out);
  if (p_.is("promote", "none")) return onto(pv_, out, weights, column);
  return f32_.add(out, chunked(pv_, weights, column, p_.text("promote")));
}

double AttentionSums::rescaled(double o, double factor) const {
  if (unit_ == nullptr) return p_.is("promote", "none") ? pv_.mul(o, factor) : f32_.mul(o, factor);
  const double z = f32_.mul(o, factor);
  if (!p_.is("promote", "none") || unit_->out == "f32") return z;
  return unit_->out == "f16" ? round_f16(z) : static_cast<double>(truncate_e8m13(static_cast<float>(z)));
}

}  // namespace assay::adversary
