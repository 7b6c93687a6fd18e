// One row of attention as kernels compute it, in plain float: what a contract leaves open is a choice here.
// It knows nothing of the proofs, so that limits are tested against it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::plain {

// One query row, one head, one column of V.
struct Row {
  std::vector<float> q, k, v;  // [d], [keys, d], [keys]
  float scale = 1, sink = 0, softcap = 0;
  bool sinks = false;
  std::int64_t window = 0;  // 0: none
  std::vector<std::uint8_t> seen = {};
  std::string dtype = "f32", kv = "f32";
  std::int64_t keys() const { return std::ssize(v); }
  std::int64_t d() const { return std::ssize(q); }
};

struct Choice {
  std::int64_t tile = 64, split = 1, lanes = 1;
  std::int64_t first_tile = 0;  // keys of a part's first tile, where that is shorter
  bool sink_first = false, scales_q = false;
  bool doubles = false;  // the fault: the largest logit's value is added twice
  bool shares = false;   // weights are divided by their sum before their cast
  bool logs = false;     // parts are merged by their log-sum-exps, all at once
  bool fused = false;    // exp(a - b) is exp2 of the f32 of a log2 e - f32(b log2 e)
  float second = 1;      // scales_q: a second factor of q, log2 e where exp is of base 2
  float lag = 0;         // a maximum is kept until a logit is above it by more
  float p_factor = 1;    // of a weight before its cast
  std::string qk = "f32", scaled_q = "f32", scores = "f32", p = "f32", rowsum = "f32", pv = "f32";
  std::function<float(float)> log = [](float t) { return std::log(t); };
  std::function<float(float)> tanh = [](float t) { return std::tanh(t); };
  std::function<float(float, float)> divide = [](float a, float b) { return a / b; };
  std::function<float(float)> exp = [](float t) {
    return static_cast<float>(std::exp(static_cast<double>(t)));
  };
};

inline float rounded(const std::string& to, float x) {
  return to == "f32" ? x
                     : static_cast<float>(
                           round_to(scalar_format(to), static_cast<double>(x), {.overflow = Overflow::ieee}));
}

class Kernel {
 public:
  Kernel(const Row& row, const Choice& how) : row_(row), how_(how) {
    for (std::int64_t j = 0; j < row.keys(); ++j) {
      float s = 0;
      for (std::int64_t i = 0; i < row.d(); ++i) {
        const float q =
            how.scales_q ? rounded(how.scaled_q, row.q[at(i)] * row.scale) * how.second : row.q[at(i)];
        s = rounded(how.qk, s + rounded(how.qk, q * row.k[at(j * row.d() + i)]));
      }
      float x = how.scales_q ? s : s * row.scale;  // the logit
      if (row.softcap > 0) x = row.softcap * how.tanh(x / row.softcap);
      x_.push_back(rounded(how.scores, x));
    }
  }

  float run() const {
    if (how_.shares) return eager();
    State all;
    if (row_.sinks && how_.sink_first) all = {row_.sink, 1, 0};
    std::vector<State> parts;
    const std::int64_t size = (row_.keys() + how_.split - 1) / how_.split;
    for (std::int64_t first = 0; first < row_.keys(); first += size) {
      const State own = part(first, std::min(row_.keys(), first + size), how_.split == 1 ? all : State{});
      parts.push_back(own);
      all = how_.split == 1 ? own : merged(all, own);
    }
    if (how_.logs) all = by_logs(parts);
    if (row_.sinks && !how_.sink_first) {
      rescale(all, std::max(all.m, row_.sink));
      all.l = rounded(how_.rowsum, all.l + how_.exp(row_.sink - all.m));
    }
    return rounded(row_.dtype, how_.divide(all.o * (1 / how_.p_factor), all.l));
  }

 private:
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  struct State {
    float m = kNone, l = 0, o = 0;
  };
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  bool seen(std::int64_t j) const {
    return (row_.seen.empty() || row_.seen[at(j)] != 0) &&
           (row_.window == 0 || j >= row_.keys() - row_.window);
  }

  float times(std::int64_t j) const {
    if (!how_.doubles) return 1;
    for (std::int64_t i = 0; i < row_.keys(); ++i)
      if (seen(i) && x_[at(i)] > x_[at(j)]) return 1;
    return 2;
  }

  float exp(float a, float b) const {
    constexpr float kLog2E = 0x1.715476p+0F;
    return how_.fused ? std::exp2(std::fma(a, kLog2E, -(b * kLog2E))) : how_.exp(a - b);
  }
  void rescale(State& s, float m) const {
    if (s.m != kNone && m != s.m) {
      const float a = exp(s.m, m);
      s.l = rounded(how_.rowsum, s.l * a), s.o = rounded(how_.pv, s.o * a);
    }
    s.m = m;
  }
  State merged(State a, State b) const {
    if (a.m == kNone || b.m == kNone) return a.m == kNone ? b : a;
    const float m = std::max(a.m, b.m);
    rescale(a, m), rescale(b, m);
    return {m, a.l + b.l, a.o + b.o};
  }

  State by_logs(const std::vector<State>& parts) const {
    float top = kNone;
    for (const State& s : parts) top = std::max(top, s.m + how_.log(s.l));
    State all{top, 0, 0};
    for (const State& s : parts) {
      const float e = how_.exp(s.m + how_.log(s.l) - top);
      all.l += e, all.o += e * (s.o / s.l);
    }
    return all;
  }

  State part(std::int64_t first, std::int64_t last, State s) const {
    for (std::int64_t t = first, end = 0; t < last; t = end) {
      end = std::min(last, t + (t == first && how_.first_tile > 0 ? how_.first_tile : how_.tile));
      float top = kNone;
      for (std::int64_t j = t; j < end; ++j)
        if (seen(j)) top = std::max(top, x_[at(j)]);
      if (top == kNone) continue;
      if (top > s.m + how_.lag || s.m == kNone) rescale(s, std::max(s.m, top));
      std::vector<float> lanes(at(how_.lanes), 0.0F);
      for (std::int64_t j = t; j < end; ++j) {
        if (!seen(j)) continue;  // adds 0 in its place
        const float w = exp(x_[at(j)], s.m);
        float& lane = lanes[at((j - t) % how_.lanes)];
        lane = rounded(how_.rowsum, lane + rounded(how_.rowsum, w));
        const float p = rounded(how_.p, w * how_.p_factor) * times(j);
        s.o = rounded(how_.pv, s.o + rounded(how_.pv, p * row_.v[at(j)]));
      }
      for (std::size_t step = 1; step < lanes.size(); step *= 2)
        for (std::size_t i = 0; i + step < lanes.size(); i += 2 * step)
          lanes[i] = rounded(how_.rowsum, lanes[i] + lanes[i + step]);
      s.l = rounded(how_.rowsum, s.l + lanes[0]);
    }
    return s;
  }

  // Two passes: the weights divided by their sum, then cast. Sums are rounded once, as no order of f32
  // additions beats.
  float eager() const {
    float top = row_.sinks ? row_.sink : kNone;
    double all = 0, o = 0;
    for (std::int64_t j = 0; j < row_.keys(); ++j)
      if (seen(j)) top = std::max(top, x_[at(j)]);
    for (std::int64_t j = 0; j < row_.keys(); ++j)
      if (seen(j)) all += static_cast<double>(how_.exp(x_[at(j)] - top));
    if (row_.sinks) all += static_cast<double>(how_.exp(row_.sink - top));
    const auto l = static_cast<float>(all);
    for (std::int64_t j = 0; j < row_.keys(); ++j)
      if (seen(j))
        o += static_cast<double>(rounded(how_.p, how_.divide(how_.exp(x_[at(j)] - top), l) * how_.p_factor)) *
             static_cast<double>(times(j) * row_.v[at(j)]);
    return rounded(row_.dtype, static_cast<float>(o) * (1 / how_.p_factor));
  }

  const Row& row_;
  const Choice& how_;
  std::vector<float> x_;
};

inline double kernel(const Row& row, const Choice& how) {
  return static_cast<double>(Kernel(row, how).run());
}

// The op's value and limit for that row.
struct Claim {
  double value, limit;
};
inline Claim claim(const Row& r, const std::string& contract) {
  std::map<std::string, std::string> given{
      {"heads", "1"}, {"dv", "1"},       {"d", std::to_string(r.d())}, {"len", std::to_string(r.keys())},
      {"kv", r.kv},   {"dtype", r.dtype}};
  char scale[32];
  std::snprintf(scale, sizeof scale, "%.9g", static_cast<double>(r.scale));
  given["scale"] = scale;
  if (r.softcap > 0) given["softcap"] = std::to_string(r.softcap);
  if (r.sinks) given["sinks"] = "yes";
  if (!r.seen.empty()) given["mask"] = "random";
  if (r.window > 0) given["mask"] = "window", given["window"] = std::to_string(r.window);
  const Attributes attributes = Attributes::complete(kAttention.attributes, given);
  TensorSet inputs;
  kAttention.indices(attributes, 1, inputs);
  for (const TensorSpec& spec : kAttention.tensors(attributes)) {
    if (spec.role != TensorRole::data) continue;
    const std::vector<float> sink{r.sink};
    const std::vector<float>& values = spec.name == "q"   ? r.q
                                       : spec.name == "k" ? r.k
                                       : spec.name == "v" ? r.v
                                                          : sink;
    inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape, values));
  }
  if (!r.seen.empty()) std::memcpy(inputs.at("mask").planes[0].bytes.data(), r.seen.data(), r.seen.size());
  const Truth t = kAttention.truth(attributes, inputs, Contract::parse(contract, kAttention.contract))[0];
  return {t.value[0], t.limit[0]};
}
// |kernel - value| / limit
inline double ratio(const Row& row, const Choice& how, const std::string& contract) {
  const Claim c = claim(row, contract);
  const double error = std::fabs(kernel(row, how) - c.value);
  if (std::isinf(c.limit)) return 0;  // nothing is claimed
  if (error <= c.limit) return error == 0 ? 0 : error / c.limit;
  return error > c.limit ? error / c.limit : std::numeric_limits<double>::infinity();  // NaN fails
}

}  // namespace assay::plain
