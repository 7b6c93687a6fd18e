// What the tests of the ops share: a case from values, correct and planted kernels in f32, f16 or bf16, and a
// judge.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/gamma.hpp"
#include "reference/arithmetic/rounding.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/judged.hpp"
#include "reference/ops/op.hpp"

namespace assay::testing {

using Values = std::vector<float>;

// How far a number may be off that comes of so many roundings of doubles in a row, when what is added up has
// this magnitude: the reference's value before its certificate, or a test's own model of it.
inline double error_of_doubles(double roundings, double magnitude) {
  return assay::gamma_n(roundings, kUnit64) * magnitude;
}

struct OpCase {
  const Op* op_row;
  Attributes attributes;
  TensorSet set;

  OpCase(std::string_view name, const std::map<std::string, std::string>& given) : op_row(&op(name)) {
    attributes = Attributes::complete(op_row->attributes, given);
    if (op_row->indices != nullptr) op_row->indices(attributes, 7, set);
  }
  TensorSpec spec(std::string_view tensor) const {
    for (const TensorSpec& each : op_row->tensors(attributes))
      if (each.name == tensor) return each;
    throw std::runtime_error("no tensor " + std::string(tensor));
  }
  // Encodes values into the tensor's format; returns what the kernel then reads.
  Values put(std::string_view tensor, const Values& values) {
    const TensorSpec s = spec(tensor);
    const EncodePolicy policy{.overflow = Overflow::ieee};
    set.insert_or_assign(s.name, encode_tensor(format(s.format), s.shape, values, policy));
    return read(tensor);
  }
  Values read(std::string_view tensor) const {
    const std::vector<double> decoded = decode_tensor(set.at(std::string(tensor)));
    return {decoded.begin(), decoded.end()};
  }
  std::vector<Truth> truths(std::string_view contract) const {
    return op_row->truth(attributes, set, Contract::parse(contract, op_row->contract));
  }
  Truth truth(std::string_view contract) const { return truths(contract).front(); }
};

// A whole output under the verdict's own rule.
struct Judgement {
  std::size_t bad = 0;
  double worst = 0;  // largest error / limit over elements with a positive, finite limit
  std::string first;
};
template <class Numbers>
Judgement judge(const Truth& truth, const Numbers& got) {
  Judgement result;
  EXPECT_EQ(truth.value.size(), got.size());
  for (std::size_t i = 0; i < truth.value.size(); ++i) {
    const double want = truth.value[i], value = static_cast<double>(got[i]);
    const Judged one = assay::judge(value, want, truth.limit[i]);
    if (truth.limit[i] > 0 && std::isfinite(truth.limit[i])) result.worst = std::max(result.worst, one.ratio);
    if (!one.ok && result.bad++ == 0)
      result.first = "element " + std::to_string(i) + ": got " + std::to_string(value) + " want " +
                     std::to_string(want) + " limit " + std::to_string(truth.limit[i]);
  }
  return result;
}
template <class Numbers>
void expect_pass(const Truth& truth, const Numbers& got) {
  const Judgement j = judge(truth, got);
  EXPECT_EQ(j.bad, 0U) << j.first;
}
template <class Numbers>
void expect_caught(const Truth& truth, const Numbers& got) {
  EXPECT_GT(judge(truth, got).bad, 0U);
}

// One rounding of a kernel that computes in f32, f16 or bf16.
struct Arithmetic {
  std::string_view name;
  float operator()(double x) const {
    if (name == "f16") return static_cast<float>(round_f16(x));
    if (name == "bf16") return static_cast<float>(round_bf16(x));
    return static_cast<float>(x);
  }
};

// Sums as kernels form them, one rounding an addition.
inline float sum_in(const Arithmetic& rd, std::vector<float> t, std::string_view order) {
  if (t.empty()) return 0;
  if (order == "tree") {
    for (std::size_t n = t.size(); n > 1; n = (n + 1) / 2)
      for (std::size_t i = 0; i < (n + 1) / 2; ++i)
        t[i] = 2 * i + 1 < n ? rd(double(t[2 * i]) + t[2 * i + 1]) : t[2 * i];
    return t[0];
  }
  if (order == "reversed") std::reverse(t.begin(), t.end());
  if (order == "lanes") {  // 8 accumulators, then one after another
    std::vector<float> lanes(std::min<std::size_t>(8, t.size()));
    for (std::size_t i = 0; i < t.size(); ++i)
      lanes[i % lanes.size()] = rd(double(lanes[i % lanes.size()]) + t[i]);
    t = lanes;
  }
  float s = t[0];
  for (std::size_t i = 1; i < t.size(); ++i) s = rd(double(s) + t[i]);
  return s;
}

enum class Shape1 { gaussian, peaked, offset, tiny, huge, equal, alternating };
inline Values draw(Shape1 shape, std::size_t n, std::uint64_t seed, float size = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float g = normal(engine);
    switch (shape) {
      case Shape1::gaussian:
        x[i] = g * size;
        break;
      case Shape1::peaked:
        x[i] = i == n / 3 ? 30 * size : g * size;
        break;
      case Shape1::offset:
        x[i] = 1000 * size + g * size;
        break;
      case Shape1::tiny:
        x[i] = g * 1e-38F;
        break;
      case Shape1::huge:
        x[i] = g * 1e4F;
        break;
      case Shape1::equal:
        x[i] = 11.2F * size;
        break;
      case Shape1::alternating:
        x[i] = (i % 2 == 0 ? 1.0F : -1.0F) * (size + 1e-3F * g);
        break;
    }
  }
  return x;
}
inline constexpr Shape1 kShapes[] = {Shape1::gaussian, Shape1::peaked, Shape1::offset,     Shape1::tiny,
                                     Shape1::huge,     Shape1::equal,  Shape1::alternating};

inline InputErrorKind kind_of(auto&& action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.kind();
  }
  ADD_FAILURE() << "nothing was refused";
  return InputErrorKind::unknown_name;
}
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  return "nothing was refused";
}

}  // namespace assay::testing
