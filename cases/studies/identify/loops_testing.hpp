// Kernels written as plain loops, which know nothing of schedules, plans or replays, and the schedule that
// each one is.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cases/studies/identify/subject.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {

using Dot = std::function<float(const float* a, const float* b, std::int64_t n)>;

inline float chain(const float* a, const float* b, std::int64_t n, bool fma) {
  float s = 0;
  for (std::int64_t k = 0; k < n; ++k) s = fma ? std::fma(a[k], b[k], s) : s + a[k] * b[k];
  return s;
}
inline Dot strided(int lanes, bool fma, bool neighbours) {
  return [=](const float* a, const float* b, std::int64_t n) {
    std::vector<float> s(static_cast<std::size_t>(lanes), 0.0F);
    for (std::int64_t k = 0; k < n; ++k) {
      float& lane = s[static_cast<std::size_t>(k % lanes)];
      lane = fma ? std::fma(a[k], b[k], lane) : lane + a[k] * b[k];
    }
    for (int left = lanes; left > 1; left /= 2)
      for (int j = 0; j < left / 2; ++j)
        s[static_cast<std::size_t>(j)] =
            neighbours ? s[static_cast<std::size_t>(2 * j)] + s[static_cast<std::size_t>(2 * j + 1)]
                       : s[static_cast<std::size_t>(j)] + s[static_cast<std::size_t>(j + left / 2)];
    return s[0];
  };
}
inline Dot blocked(std::int64_t block, bool fma) {
  return [=](const float* a, const float* b, std::int64_t n) {
    float s = 0;
    for (std::int64_t k = 0; k < n; k += block) {
      const float part = chain(a + k, b + k, std::min(block, n - k), fma);
      s = k == 0 ? part : s + part;
    }
    return s;
  };
}
// Units by the scalar model that defines them, not by the lanes that replay.
inline Dot unit(const char* name, int promote) {
  return [=](const float* a, const float* b, std::int64_t n) {
    const auto size = static_cast<std::size_t>(n);
    return static_cast<float>(promoted_dot(matrix_unit(name), {std::span(a, size), "bf16"},
                                           {std::span(b, size), "bf16"}, 0, promote));
  };
}
inline Dot sliced(const char* name, std::int64_t slice) {
  return [=](const float* a, const float* b, std::int64_t n) {
    float s = 0;
    for (std::int64_t k = 0; k < n; k += slice) s += unit(name, 0)(a + k, b + k, std::min(slice, n - k));
    return s;
  };
}
inline float backwards(const float* a, const float* b, std::int64_t n) {
  float s = 0;
  for (std::int64_t k = n; k-- > 0;) s += a[k] * b[k];
  return s;
}
inline float swapped(const float* a, const float* b, std::int64_t n) {
  float s = 0;
  for (std::int64_t k = 0; k < n; ++k) s = std::fma(a[k ^ 1], b[k ^ 1], s);
  return s;
}
inline float in_double(const float* a, const float* b, std::int64_t n) {
  double s = 0;
  for (std::int64_t k = 0; k < n; ++k) s += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return static_cast<float>(s);
}
inline float in_bf16(const float* a, const float* b, std::int64_t n) {
  double s = 0;
  for (std::int64_t k = 0; k < n; ++k)
    s = round_to_width(s + round_to_width(static_cast<double>(a[k]) * static_cast<double>(b[k]), Width::bf16),
                       Width::bf16);
  return static_cast<float>(s);
}

inline float halved(float* s, int lanes) {
  for (int half = lanes / 2; half >= 1; half /= 2)
    for (int j = 0; j < half; ++j) s[j] += s[j + half];
  return s[0];
}
// The first term alone, then vectors of 8; what is left is added to a vector that begins with their sum.
inline float headed(const float* a, const float* b, std::int64_t n) {
  float s[8] = {a[0] * b[0]};
  std::int64_t k = 1;
  for (; k + 8 <= n; k += 8)
    for (int j = 0; j < 8; ++j) s[j] = std::fma(a[k + j], b[k + j], s[j]);
  float rest[8] = {halved(s, 8)};
  if (k == n) return rest[0];
  for (int j = 0; k + j < n; ++j) rest[j] = std::fma(a[k + j], b[k + j], rest[j]);
  return halved(rest, 8);
}
// The first term's product stands apart; what is left behind vectors of 16 goes on over their halves' sums.
inline float headed_apart(const float* a, const float* b, std::int64_t n) {
  float s[16] = {};
  std::int64_t k = 1;
  for (; k + 16 <= n; k += 16)
    for (int j = 0; j < 16; ++j) s[j] = std::fma(a[k + j], b[k + j], s[j]);
  for (int j = 0; j < 8; ++j) s[j] += s[j + 8];
  for (; k < n; k += 8)
    for (int j = 0; j < 8 && k + j < n; ++j) s[j] = std::fma(a[k + j], b[k + j], s[j]);
  const float first = a[0] * b[0];
  return halved(s, 8) + first;
}
// Vectors of 4, each 16 of which are one number of the sum above.
inline float cascaded(const float* a, const float* b, std::int64_t n) {
  float low[4] = {}, high[4] = {}, s = 0;
  for (std::int64_t k = 0; k + 4 <= n; k += 4)
    for (int j = 0; j < 4; ++j) {
      low[j] += a[k + j] * b[k + j];
      if (k / 4 % 16 == 15) high[j] += low[j], low[j] = 0;
    }
  for (std::int64_t k = n / 4 * 4; k < n; ++k) s += a[k] * b[k];
  for (int j = 0; j < 4; ++j) s += low[j] + high[j];
  return s;
}

struct Known {
  const char* schedule;
  Dot dot;
};
inline const std::vector<Known>& known() {
  static const std::vector<Known> list = {
      {"acc=f32", [](auto a, auto b, auto n) { return chain(a, b, n, false); }},
      {"acc=f32 fma=yes", [](auto a, auto b, auto n) { return chain(a, b, n, true); }},
      {"acc=f32 order=descending", backwards},
      {"acc=f32 fma=yes order=swapped", swapped},
      {"acc=f64", in_double},
      {"acc=bf16", in_bf16},
      {"acc=f32 lanes=4", strided(4, false, false)},
      {"acc=f32 lanes=4 fold=adjacent", strided(4, false, true)},
      {"acc=f32 lanes=8", strided(8, false, false)},
      {"acc=f32 lanes=8 fma=yes", strided(8, true, false)},
      {"acc=f32 lanes=16 fma=yes fold=adjacent", strided(16, true, true)},
      {"acc=f32 chunk=32", blocked(32, false)},
      {"acc=f32 chunk=32 fma=yes", blocked(32, true)},
      {"acc=f32 chunk=64 fma=yes", blocked(64, true)},
      {"acc=f32 fma=yes lanes=8 head=1 tail=refold", headed},
      {"acc=f32 fma=yes lanes=16 head=1 head_at=apart tail=folded:8", headed_apart},
      {"acc=f32 lanes=4 fold=sequential tail=before:4 cascade=16", cascaded},
      {"acc=hopper_bf16", unit("hopper_bf16", 0)},
      {"acc=hopper_bf16 chunk=32", unit("hopper_bf16", 2)},
      {"acc=hopper_bf16 split=2 quantum=16", sliced("hopper_bf16", 80)},
      {"acc=a100_bf16", unit("a100_bf16", 0)},
      {"acc=cdna2_bf16", unit("cdna2_bf16", 0)},
      {"acc=cdna3_bf16", unit("cdna3_bf16", 0)},
  };
  return list;
}

// Loops as a subject, of operands in a scalar format.
class Loops : public GemmSubject {
 public:
  Loops(Dot dot, std::string element, std::string stored = "f32")
      : dot_(std::move(dot)), element_(std::move(element)), stored_(std::move(stored)) {}
  std::string a_element() const override { return element_; }
  std::string b_element() const override { return element_; }
  std::string stored_as() const override { return stored_; }
  std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) override {
    std::uint64_t state = seed * 977;
    const auto numbers = [&](std::int64_t count) {
      std::vector<float> list;
      for (std::int64_t i = 0; i < count; ++i) {
        const double u = static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53 - 0.5;
        list.push_back(element_ == "f32" ? static_cast<float>(u)
                                         : static_cast<float>(round_to(scalar_format(element_), u)));
      }
      return list;
    };
    std::vector<float> a = numbers(shape.m * shape.k);
    return crafted(shape, std::move(a), numbers(shape.n * shape.k), "seed " + std::to_string(seed));
  }
  std::optional<Answer> crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    ++calls;
    Answer answer{what,
                  {shape.m, shape.k, element_, std::move(a), {}},
                  {shape.n, shape.k, element_, std::move(b), {}},
                  {},
                  {},
                  {}};
    for (std::int64_t i = 0; i < shape.m; ++i)
      for (std::int64_t j = 0; j < shape.n; ++j)
        answer.got.push_back(
            round_to_width(static_cast<double>(dot_(answer.a.values.data() + i * shape.k,
                                                    answer.b.values.data() + j * shape.k, shape.k)),
                           width_of(stored_)));
    return answer;
  }

 private:
  Dot dot_;
  std::string element_, stored_;
};

}  // namespace assay
