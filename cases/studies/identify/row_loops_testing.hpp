// Kernels on rows written as plain loops, which know nothing of schedules.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "cases/studies/identify/rows.hpp"
#include "reference/mix.hpp"
#include "reference/replay/exponentials.hpp"
#include "reference/replay/row_replay.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {

using Row = void (*)(const RowInputs&, const float* x, float* y);

inline float strided_squares(const float* x, std::int64_t n, float mean, std::int64_t lanes) {
  std::array<float, 16> s{};
  for (std::int64_t i = 0; i < n; ++i)
    s[static_cast<std::size_t>(i % lanes)] =
        std::fma(x[i] - mean, x[i] - mean, s[static_cast<std::size_t>(i % lanes)]);
  for (std::int64_t half = lanes / 2; half >= 1; half /= 2)
    for (std::int64_t j = 0; j < half; ++j)
      s[static_cast<std::size_t>(j)] += s[static_cast<std::size_t>(j + half)];
  return s[0];
}
template <int kLanes>
void rmsnorm(const RowInputs& in, const float* x, float* y) {
  const float f =
      1.0F / std::sqrt(strided_squares(x, in.cols, 0, kLanes) / static_cast<float>(in.cols) + in.eps);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
}
inline void rmsnorm_of_doubles(const RowInputs& in, const float* x, float* y) {
  double s = 0;
  for (std::int64_t i = 0; i < in.cols; ++i) s += static_cast<double>(x[i] * x[i]);
  const float mean = static_cast<float>(s / static_cast<double>(in.cols));
  const float deviation = std::sqrt(mean + in.eps);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] / deviation * in.gamma[static_cast<std::size_t>(i)];
}
inline void layernorm(const RowInputs& in, const float* x, float* y) {
  float sum = 0;
  for (std::int64_t i = 0; i < in.cols; ++i) sum += x[i];
  const float mean = sum * (1.0F / static_cast<float>(in.cols));
  const float v = strided_squares(x, in.cols, mean, 8) * (1.0F / static_cast<float>(in.cols));
  const float f = 1.0F / std::sqrt(v + in.eps);
  for (std::size_t i = 0; i < static_cast<std::size_t>(in.cols); ++i)
    y[i] = std::fma((x[i] - mean), f * in.gamma[i], in.beta[i]);
}
// Squares in two vectors of 4; 16 of a lane are one number of the sum above, 16 of which are one of the next;
// then a vector that is left, and numbers in front of the lanes.
inline void rmsnorm_in_levels(const RowInputs& in, const float* x, float* y) {
  const std::int64_t n = in.cols;
  float s[8] = {}, above[8] = {}, top[8] = {};
  std::int64_t i = 0;
  for (std::int64_t pass = 1; i + 8 <= n; ++pass, i += 8)
    for (int j = 0; j < 8; ++j) {
      s[j] += x[i + j] * x[i + j];
      if (pass % 16 == 0) above[j] += s[j], s[j] = 0;
      if (pass % 256 == 0) top[j] += above[j], above[j] = 0;
    }
  for (int j = 0; j < 8; ++j) s[j] = (s[j] + above[j]) + top[j];
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; ++j) s[j] += x[i + j] * x[i + j];
  float all = 0;
  for (; i < n; ++i) all += x[i] * x[i];
  for (int j = 0; j < 4; ++j) all += s[j] + s[j + 4];
  const float f = 1.0F / std::sqrt(all / static_cast<float>(n) + in.eps);
  for (std::int64_t k = 0; k < n; ++k) y[k] = x[k] * f * in.gamma[static_cast<std::size_t>(k)];
}

// Moments in 4 lanes, of 4 numbers each, which are merged like the digits of a binary counter.
struct Running {
  float n = 0, mean = 0, squares = 0;
};
inline void merge_shared(Running& a, const Running& b) {
  if (a.n == 0)
    a = b;
  else if (b.n > 0) {
    const float d = b.mean - a.mean, t = b.n / (a.n + b.n) * d;
    a.squares = std::fma(t, d * a.n, a.squares + b.squares);
    a.mean += t, a.n += b.n;
  }
}
inline void merge_nested(Running& a, const Running& b) {
  const float d = b.mean - a.mean, c = b.n / (a.n + b.n);
  a.mean = std::fma(c, d, a.mean);
  a.squares += std::fma(d * d * c, a.n, b.squares);
  a.n += b.n;
}
inline void layernorm_merged(const RowInputs& in, const float* x, float* y) {
  Running all;
  for (std::int64_t i = in.cols / 4 * 4; i < in.cols; ++i) {
    const float d = x[i] - all.mean;
    all.mean += d / ++all.n;
    all.squares = std::fma(d, x[i] - all.mean, all.squares);
  }
  for (std::int64_t lane = 0; lane < 4; ++lane) {
    std::array<Running, 16> digits;
    std::int64_t chunks = 0;
    for (std::int64_t pass = 0; pass < in.cols / 4; pass += 4) {
      Running chunk;
      for (std::int64_t p = pass; p < std::min(pass + 4, in.cols / 4); ++p) {
        const float value = x[p * 4 + lane], d = value - chunk.mean;
        chunk.mean = std::fma(d, 1 / ++chunk.n, chunk.mean);
        chunk.squares = std::fma(d, value - chunk.mean, chunk.squares);
      }
      merge_shared(digits[0], chunk);
      ++chunks;
      for (std::size_t j = 1; chunks % (1 << j) == 0; ++j)
        merge_shared(digits[j], digits[j - 1]), digits[j - 1] = {};
    }
    for (std::size_t j = 1; j < digits.size(); ++j) merge_shared(digits[0], digits[j]);
    merge_nested(all, digits[0]);
  }
  const float f = 1.0F / std::sqrt(all.squares / static_cast<float>(in.cols) + in.eps);
  for (std::size_t i = 0; i < static_cast<std::size_t>(in.cols); ++i)
    y[i] = (x[i] - all.mean) * f * in.gamma[i] + in.beta[i];
}

inline void softmax(const RowInputs& in, const float* x, float* y, RowExp exp) {
  float top = x[0], s = 0;
  for (std::int64_t i = 1; i < in.cols; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = in.cols; i-- > 0;) s += y[i] = exp(x[i] - top);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = y[i] / s;
}
// With every step that a call may have: two lanes, in which what is hidden is a 0, and a sink behind them.
inline void softmax_of_steps(const RowInputs& in, const float* x, float* y) {
  const auto row = static_cast<std::size_t>((x - in.x.data()) / in.cols);
  const float by = 1 / in.temperature, sink = in.sinks[row];
  const RowExp exp = row_exp("arm");
  float top = sink, even = 0, odd = 0;
  const auto seen = [&](std::int64_t i) {
    return in.visible[row * static_cast<std::size_t>(in.cols) + static_cast<std::size_t>(i)] != 0;
  };
  for (std::int64_t i = 0; i < in.cols; ++i) {
    const float z = x[i] * by / in.softcap;
    y[i] = in.softcap * static_cast<float>(std::tanh(static_cast<double>(z)));
    if (seen(i)) top = std::max(top, y[i]);
  }
  for (std::int64_t i = 0; i < in.cols; ++i) {
    y[i] = seen(i) ? exp(y[i] - top) : 0;
    (i % 2 == 0 ? even : odd) += y[i];
  }
  const float s = even + odd + exp(sink - top);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = y[i] / s;
}
inline void softmax_by_arm(const RowInputs& in, const float* x, float* y) {
  softmax(in, x, y, row_exp("arm"));
}
// As Triton compiles them for an NVIDIA GPU: ex2.approx, rcp.approx, rsqrt.approx and sqrt.approx.
inline void softmax_of_the_unit(const RowInputs& in, const float* x, float* y) {
  float top = x[0], sum = 0;
  for (std::int64_t i = 1; i < in.cols; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = 0; i < in.cols; ++i) sum += y[i] = ex2_approx_ftz((x[i] - top) * 1.44269504F);
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] *= rcp_approx_ftz(sum);
}
template <bool kOneStep>
void rmsnorm_of_the_unit(const RowInputs& in, const float* x, float* y) {
  const float v = strided_squares(x, in.cols, 0, 4) * rcp_approx_ftz(static_cast<float>(in.cols)) + in.eps;
  const float f = kOneStep ? rsqrt_approx_ftz(v) : rcp_approx_ftz(sqrt_approx_ftz(v));
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
}
// A warp whose compiler fuses the first product with the rounded second, and eps with the mean's product.
inline void rmsnorm_of_a_warp(const RowInputs& in, const float* x, float* y) {
  std::array<float, 32> s{};
  for (std::int64_t lane = 0; lane < 32; ++lane) {
    float& sum = s[static_cast<std::size_t>(lane)];
    sum = std::fma(x[lane], x[lane], x[lane + 32] * x[lane + 32]);
    for (std::int64_t i = lane + 64; i < in.cols; i += 32) sum = std::fma(x[i], x[i], sum);
  }
  for (std::size_t half = 16; half >= 1; half /= 2)
    for (std::size_t j = 0; j < half; ++j) s[j] += s[j + half];
  const float f = rsqrt_approx_ftz(std::fma(s[0], rcp_approx_ftz(static_cast<float>(in.cols)), in.eps));
  for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
}
// An exponential that no hypothesis has: every one is an ulp too large.
inline void softmax_by_another(const RowInputs& in, const float* x, float* y) {
  softmax(in, x, y, [](float z) { return z == 0 ? 1.0F : std::nextafter(std::exp(z), 2.0F); });
}
inline void logsumexp(const RowInputs& in, const float* x, float* y) {
  float top = x[0], even = 0, odd = 0;
  for (std::int64_t i = 1; i < in.cols; ++i) top = std::max(top, x[i]);
  for (std::int64_t i = 0; i < in.cols; ++i) (i % 2 == 0 ? even : odd) += std::exp(x[i] - top);
  y[0] = top + std::log(even + odd);
}
inline void wht(const RowInputs& in, const float* x, float* y) {
  std::copy(x, x + in.cols, y);
  for (std::int64_t half = in.points / 2; half >= 1; half /= 2)
    for (std::int64_t i = 0; i < in.cols; ++i) {
      if ((i & half) != 0) continue;
      const float a = y[i], b = y[i + half];
      y[i] = a + b, y[i + half] = a - b;
    }
  for (std::int64_t i = 0; i < in.cols; ++i)
    y[i] *= static_cast<float>(1 / std::sqrt(static_cast<double>(in.points)));
}

// `row` for up to 255 rows, `wide` from 256 on.
class Loops : public RowSubject {
 public:
  Loops(std::string op, Row row, Row wide = nullptr)
      : op_(std::move(op)), row_(row), wide_(wide ? wide : row) {}
  std::string op() const override { return op_; }
  std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) override {
    std::uint64_t state = seed;
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (float& v : x) v = number(state);
    return crafted(rows, cols, std::move(x), "seed " + std::to_string(seed), {});
  }
  std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                   const std::string& what, const std::vector<float>& gamma) override {
    ++calls;
    RowAnswer answer{what, {rows, cols, std::move(x), {}, {}, 1e-5F, 32, {}, false, "f32"}, {}};
    std::uint64_t state = 99;
    if (row_ == softmax_of_steps) {
      answer.in.temperature = 0.7F, answer.in.softcap = 3;
      for (std::int64_t i = 0; i < rows; ++i) answer.in.sinks.push_back(number(state));
      for (std::int64_t i = 0; i < rows * cols; ++i) answer.in.visible.push_back(number(state) < 1 ? 1 : 0);
    }
    for (std::int64_t i = 0; i < cols; ++i)
      answer.in.gamma.push_back(number(state)), answer.in.beta.push_back(number(state));
    if (!gamma.empty()) answer.in.gamma = gamma;
    std::vector<float> y(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      (rows >= 256 ? wide_ : row_)(answer.in, answer.in.x.data() + r * cols, y.data());
      answer.got.insert(answer.got.end(), y.begin(), op_ == "logsumexp" ? y.begin() + 1 : y.end());
    }
    return answer;
  }

 private:
  static float number(std::uint64_t& state) {
    return static_cast<float>(static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-50 - 4);
  }
  std::string op_;
  Row row_, wide_;
};

}  // namespace assay
