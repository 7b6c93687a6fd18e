// An online softmax over tiles of 64 keys, one row of one head after the other.
#include <algorithm>
#include <cmath>

#include "cases/studies/planted/kernel.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::planted {
namespace {

constexpr std::int64_t kTile = 64;

class Attention : public Kernel {
 public:
  explicit Attention(const Call& call)
      : call_(call),
        problem_(call.c.attributes, call.inputs.set),
        g_(problem_.geometry()),
        p_(value_of(call.contract, "p", "f32")),
        head_(place(call, 0, g_.heads)) {
    const std::string convert = value_of(call.contract, "convert", "none");
    std::vector<double> k(at(g_.length * g_.d)), v(at(g_.length * g_.dv));
    for (std::int64_t kv = 0; kv < g_.kv_heads; ++kv) {
      problem_.decode_k(0, kv, 0, g_.length, k.data());
      problem_.decode_v(0, kv, 0, g_.length, v.data());
      if (convert != "none")
        for (auto* tensor : {&k, &v})
          for (double& x : *tensor) x = rounded(convert, x);
      v_.push_back(v);
      for (std::int64_t h = 0; h < g_.heads; ++h)
        if (problem_.kv_head(h) == kv)
          for (std::int64_t i = 0; i < g_.rows; ++i) logits_[{h, i}] = logits(k, h, i);
    }
    honest_.resize(at(problem_.out_size()));
    for (std::int64_t h = 0; h < g_.heads; ++h) head(h, {}, honest_);
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& out) override { head(head_, plant, out); }
  std::vector<float> logits(const std::vector<double>& k, std::int64_t h, std::int64_t i) const {
    const auto q = problem_.q(0, i, h);
    std::vector<float> x(at(g_.length));
    for (std::int64_t j = 0; j < g_.length; ++j) {
      double s = 0;
      for (std::int64_t c = 0; c < g_.d; ++c) s += q[at(c)] * k[at(j * g_.d + c)];
      x[at(j)] = static_cast<float>(s) * static_cast<float>(g_.scale);
    }
    return x;
  }

  void head(std::int64_t h, const Plant& plant, std::vector<double>& out) const {
    const std::vector<char> keep = kept(call_, plant, g_.length);
    const std::vector<double>& v = v_[at(problem_.kv_head(h))];
    const auto factor = static_cast<float>(plant.kind == Kind::logits ? 1 + plant.size : 1);
    const int bits = plant.kind == Kind::bits ? static_cast<int>(plant.size) : 24;
    for (std::int64_t i = 0; i < g_.rows; ++i) {
      const std::vector<float>& x = logits_.at({h, i});
      float m = -INFINITY, l = 0;
      std::vector<float> o(at(g_.dv));
      for (std::int64_t first = 0; first < g_.length; first += kTile) {
        const std::int64_t end = std::min(g_.length, first + kTile);
        const auto seen = [&](std::int64_t j) { return keep[at(j)] != 0 && problem_.visible(0, i, j); };
        float top = m;
        for (std::int64_t j = first; j < end; ++j)
          if (seen(j)) top = std::max(top, x[at(j)] * factor);
        if (top == -INFINITY) continue;
        if (top > m && m != -INFINITY) {
          const float down = std::exp(m - top);
          l *= down;
          for (float& each : o) each *= down;
        }
        m = top;
        for (std::int64_t j = first; j < end; ++j) {
          if (!seen(j)) continue;
          const float w = std::exp(x[at(j)] * factor - m);
          l += w;
          add(o, rounded(p_, static_cast<double>(w)), &v[at(j * g_.dv)], bits);
        }
      }
      const double scale = plant.kind == Kind::scale ? 1 + plant.size : 1;
      for (std::int64_t c = 0; c < g_.dv; ++c)
        out[at(problem_.out_index(0, i, h) + c)] =
            rounded(g_.dtype, rounded("f32", static_cast<double>(o[at(c)] / l) * scale));
    }
  }

  static void add(std::vector<float>& o, double p, const double* v, int bits) {
    if (bits == 24)
      for (std::size_t c = 0; c < o.size(); ++c)
        o[c] = static_cast<float>(static_cast<double>(o[c]) + p * v[c]);
    else
      for (std::size_t c = 0; c < o.size(); ++c)
        o[c] = static_cast<float>(cut(static_cast<double>(o[c]) + p * v[c], bits));
  }

  const Call& call_;
  AttentionProblem problem_;
  const AttentionGeometry& g_;
  std::string p_;
  std::int64_t head_;
  std::vector<std::vector<double>> v_;  // by KV head
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> logits_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(const Call& call) { return std::make_unique<Attention>(call); }

}  // namespace assay::planted
