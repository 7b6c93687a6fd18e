#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/studies/cascade/arithmetic.hpp"
#include "cases/studies/cascade/e4m3.hpp"
#include "reference/ops/variance.hpp"

namespace assay::scenarios {
namespace {

// Real: float for a kernel as they run, double for the reference.
template <class Real>
class HostArithmetic : public Arithmetic {
 public:
  explicit HostArithmetic(Variance variance) : variance_(variance) {}

  void layernorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) override {
    for (int r = 0; r < rows; ++r) {
      const auto row = x.subspan(static_cast<std::size_t>(r) * cols, cols);
      const auto [mean, variance] = moments(row);
      const Real factor = 1 / std::sqrt(variance + static_cast<Real>(eps));
      for (int i = 0; i < cols; ++i)
        y[static_cast<std::size_t>(r) * cols + i] =
            static_cast<float>((static_cast<Real>(row[i]) - mean) * factor);
    }
  }

  void rmsnorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) override {
    for (int r = 0; r < rows; ++r) {
      const auto row = x.subspan(static_cast<std::size_t>(r) * cols, cols);
      Real squares = 0;
      for (const float v : row) squares += static_cast<Real>(v) * static_cast<Real>(v);
      const Real factor = 1 / std::sqrt(squares / static_cast<Real>(cols) + static_cast<Real>(eps));
      for (int i = 0; i < cols; ++i)
        y[static_cast<std::size_t>(r) * cols + i] = static_cast<float>(static_cast<Real>(row[i]) * factor);
    }
  }

  void matmul(std::span<const float> a, std::span<const float> b, int m, int n, int k,
              std::span<float> y) override {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        const float* p = a.data() + static_cast<std::size_t>(i) * k;
        const float* q = b.data() + static_cast<std::size_t>(j) * k;
        Real lane[8] = {};
        int l = 0;
        for (; l + 8 <= k; l += 8)
          for (int e = 0; e < 8; ++e) lane[e] += static_cast<Real>(p[l + e]) * static_cast<Real>(q[l + e]);
        for (; l < k; ++l) lane[0] += static_cast<Real>(p[l]) * static_cast<Real>(q[l]);
        y[static_cast<std::size_t>(i) * n + j] = static_cast<float>(
            ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])));
      }
  }

  Written kv_write(std::span<const float> x, int tokens, int heads, int d, const WriteScale& s) override {
    Written w;
    const std::size_t row = static_cast<std::size_t>(heads) * d;
    w.codes.resize(x.size());
    const float divisor = s.policy == "locked" ? static_cast<float>(s.constant) : 448.0F;
    const auto scale_of = [&](float absmax) { return absmax > 0 ? absmax / divisor : 1.0F; };
    if (s.policy == "fixed") w.scale = {1.0F};
    if (s.policy == "locked" || s.policy == "calibrated")
      for (const float a : s.absmax) w.scale.push_back(scale_of(a));
    if (s.policy == "token")
      for (int t = 0; t < tokens; ++t) w.scale.push_back(scale_of(finite_absmax(x.subspan(t * row, row))));
    for (std::size_t i = 0; i < x.size(); ++i)
      w.codes[i] = e4m3_encode(x[i] / w.scale[scale_index(s.format, i / row, i / d % heads)]);
    return w;
  }

  void attention(const AttentionCall& c, std::span<float> out) override {
    std::vector<Real> weight(static_cast<std::size_t>(c.length));
    const Real factor = 1 / std::sqrt(static_cast<Real>(c.d));
    for (int i = 0; i < c.q; ++i)
      for (int h = 0; h < c.heads; ++h) {
        const int seen = c.length - c.q + i + 1;
        const float* query = c.queries.data() + static_cast<std::size_t>(i * c.heads + h) * c.d;
        Real top = -std::numeric_limits<Real>::infinity();
        for (int j = 0; j < seen; ++j) {
          Real dot = 0;
          for (int e = 0; e < c.d; ++e) dot += static_cast<Real>(query[e]) * value(c.k, c, j, h, e);
          weight[j] = dot * factor;
          if (weight[j] > top) top = weight[j];
        }
        Real total = 0;
        for (int j = 0; j < seen; ++j) total += weight[j] = std::exp(weight[j] - top);
        for (int e = 0; e < c.d; ++e) {
          Real sum = 0;
          for (int j = 0; j < seen; ++j) sum += weight[j] * value(c.v, c, j, h, e);
          out[static_cast<std::size_t>(i * c.heads + h) * c.d + e] = static_cast<float>(sum / total);
        }
      }
  }

  void argmax(std::span<const float> x, int rows, int cols, bool checked,
              std::span<std::int32_t> y) override {
    for (int r = 0; r < rows; ++r) {
      const auto row = x.subspan(static_cast<std::size_t>(r) * cols, cols);
      int best = 0;
      for (int i = 0; i < cols; ++i)
        if (row[i] > row[best]) best = i;
      if (checked)
        for (int i = cols; i-- > 0;)
          if (std::isnan(row[i])) best = -(i + 1);
      y[r] = best;
    }
  }

  std::string description() const override {
    return sizeof(Real) == 4 ? "plain f32 loops in this process" : "f64, each stage rounded once to f32";
  }

 private:
  struct RealMoments {
    Real mean, variance;
  };
  RealMoments moments(std::span<const float> row) const {
    if constexpr (sizeof(Real) == 4) {
      const VarianceKind kind = variance_ == Variance::welford    ? VarianceKind::welford
                                : variance_ == Variance::two_pass ? VarianceKind::two_pass
                                                                  : VarianceKind::one_pass;
      const MomentsF32 m = moments_f32(row, kind);
      return {m.mean, variance_ == Variance::one_pass_clamped && m.variance < 0 ? 0.0F : m.variance};
    } else {
      Real mean = 0, variance = 0;
      for (const float v : row) mean += v;
      mean /= static_cast<Real>(row.size());
      for (const float v : row) variance += (v - mean) * (v - mean);
      return {mean, variance / static_cast<Real>(row.size())};
    }
  }

  static Real value(const KvView& kv, const AttentionCall& c, int j, int h, int e) {
    const std::size_t slot = static_cast<std::size_t>(c.table[j / c.page]) * c.page + j % c.page;
    const std::size_t at = (slot * c.heads + h) * c.d + e;
    if (kv.format == "f32") return static_cast<Real>(kv.raw[at]);
    return static_cast<Real>(e4m3_decode(kv.codes[at])) *
           static_cast<Real>(kv.scale[scale_index(kv.format, slot, h)]);
  }

  Variance variance_;
};

}  // namespace

std::unique_ptr<Arithmetic> host_arithmetic(Variance variance) {
  return std::make_unique<HostArithmetic<float>>(variance);
}
std::unique_ptr<Arithmetic> reference_arithmetic() {
  return std::make_unique<HostArithmetic<double>>(Variance::two_pass);
}

}  // namespace assay::scenarios
