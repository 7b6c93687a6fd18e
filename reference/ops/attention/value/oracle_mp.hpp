// The referee of attention: one row by its definition, in 200 bits of MPFR (or, as an independent path, in
// binary128). No tricks: every logit, every exponential, one sum after the other. About 25 us per key at d =
// 128. For tests.
#pragma once

#include <vector>

#include "reference/ops/attention/problem.hpp"
#include "reference/real/mp.hpp"

namespace assay {

template <class Real>
struct OracleRow {
  std::vector<Real> value;      // [dv]; zeros when the row sees no key. Not un-rotated.
  std::vector<Real> absolute;   // [dv] sum p_j |v_j|
  std::vector<Real> deviation;  // [dv] sum p_j |v_j - o|, the sink's share p_sink |o| included
};

// Finite inputs only; K and V as decode_k and decode_v give them.
OracleRow<mp::Real200> attention_oracle(const AttentionProblem& problem, std::int64_t b, std::int64_t row,
                                        std::int64_t head);
// The value alone, in 113 bits: what a benchmark compares with.
std::vector<mp::Real113> attention_value_113(const AttentionProblem& problem, std::int64_t b,
                                             std::int64_t row, std::int64_t head);

// The definition itself, for any type with + - * / exp tanh (found by argument-dependent lookup or in std).
template <class Real>
OracleRow<Real> attention_by_definition(const AttentionProblem& p, std::int64_t b, std::int64_t row,
                                        std::int64_t head, bool moments = true) {
  using std::exp;
  using std::tanh;
  const AttentionGeometry& g = p.geometry();
  const std::int64_t n = p.length(b), h = p.kv_head(head);
  std::vector<double> k(static_cast<std::size_t>(g.d)), v(static_cast<std::size_t>(g.dv));
  const auto q = p.q(b, row, head);
  std::vector<Real> logit;
  std::vector<std::int64_t> keys;
  for (std::int64_t j = 0; j < n; ++j) {
    if (!p.visible(b, row, j)) continue;
    p.decode_k(b, h, j, 1, k.data());
    Real s(0);
    for (std::size_t c = 0; c < k.size(); ++c) s += Real(q[c]) * Real(k[c]);
    s *= Real(g.scale);
    if (g.softcap > 0) s = Real(g.softcap) * tanh(Real(s / Real(g.softcap)));
    if (g.alibi) {
      const std::int64_t far = p.position(b, row) - j;
      s -= Real(p.slope(head)) * Real(static_cast<double>(far < 0 ? -far : far));
    }
    keys.push_back(j);
    logit.push_back(s);
  }
  OracleRow<Real> out;
  out.value.assign(v.size(), Real(0));
  out.absolute = out.deviation = out.value;
  if (keys.empty()) return out;
  Real top = logit[0];
  for (const Real& x : logit)
    if (x > top) top = x;
  Real sum(0), sink(0);
  for (Real& x : logit) sum += x = exp(Real(x - top));
  const double z = p.sink(head);
  if (g.sinks && z > -1e300) sum += sink = exp(Real(Real(z) - top));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    logit[i] /= sum;
    p.decode_v(b, h, keys[i], 1, v.data());
    for (std::size_t c = 0; c < v.size(); ++c) {
      const Real term = logit[i] * Real(v[c]);
      out.value[c] += term;
      if (moments) out.absolute[c] += term < 0 ? Real(-term) : term;
    }
  }
  if (!moments) return out;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    p.decode_v(b, h, keys[i], 1, v.data());
    for (std::size_t c = 0; c < v.size(); ++c) {
      const Real far = Real(v[c]) - out.value[c];
      out.deviation[c] += logit[i] * (far < 0 ? Real(-far) : far);
    }
  }
  for (std::size_t c = 0; c < v.size(); ++c)
    out.deviation[c] += sink / sum * (out.value[c] < 0 ? Real(-out.value[c]) : out.value[c]);
  return out;
}

}  // namespace assay
