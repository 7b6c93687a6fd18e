// Cases of a formula for tests: drawn inputs, drawn contracts, and what a member of a contract makes of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reference/formats/format.hpp"
#include "reference/mix.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/ops/formula/member.hpp"
#include "reference/ops/judged.hpp"

namespace assay::formula::testing {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) { return next_mixed(state_) % n; }
  double uniform() { return static_cast<double>(next_mixed(state_) >> 11) * 0x1p-53; }
  double gaussian() {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += uniform();
    return sum;
  }
  std::string of(std::initializer_list<const char*> words) { return words.begin()[below(words.size())]; }

 private:
  std::uint64_t state_;
};

// How inputs are made: gaussian, scaled by one power of two into subnormals and overflow, one constant, few
// values (ties), or one term above all others.
enum class Drawn : std::uint8_t { gaussian, scaled, constant, few, carrier };

inline TensorSet draw_inputs(const Op& op, const Attributes& a, Dice& dice, Drawn shape) {
  TensorSet set;
  if (op.indices) op.indices(a, dice.below(1u << 30) + 1, set);
  const double scale = shape == Drawn::scaled ? std::ldexp(1.0, static_cast<int>(dice.below(236)) - 135) : 1;
  for (const TensorSpec& t : op.tensors(a)) {
    if (t.role != TensorRole::data) continue;
    std::vector<float> x(static_cast<std::size_t>(element_count(t.shape)));
    const double level = dice.gaussian();
    for (float& v : x) {
      double g = shape == Drawn::constant ? level : scale * dice.gaussian();
      if (shape == Drawn::few) g = static_cast<double>(dice.below(5)) - 2;
      if (shape == Drawn::carrier && dice.below(16) == 0) g *= 0x1p20;
      if (std::isfinite(t.low)) g = t.low + (t.high - t.low) * 0.5 * (1 + g / (1 + std::fabs(g)));
      v = static_cast<float>(g);
    }
    set[t.name] = encode_tensor(format(t.format), t.shape, x, {});
  }
  return set;
}

inline std::string draw_contract(const Op& op, Dice& dice) {
  std::string text;
  for (const KeySpec& k : op.contract) {
    const std::string name(k.name);
    const auto says = [&](const std::string& value) { text += name + "=" + value + " "; };
    if (name == "acc" || name.ends_with(".acc")) {
      if (dice.below(4) == 0) says(dice.of({"f32", "f64", "f16", "bf16"}));
    } else if (name == "ftz") {
      says(dice.of({"no", "yes"}));
    } else if (name == "round") {
      says(dice.of(
          {"nearest_even", "nearest_even", "nearest_even", "nearest_away", "toward_zero", "stochastic"}));
    } else if (name.ends_with(".order")) {
      says(dice.of({"any", "any", "tree", "sequential", "lanes:4", "blocks:8", "depth:64"}));
    } else if (name.ends_with(".fma")) {
      says(dice.of({"any", "no", "yes"}));
    } else if (name.ends_with("_ulp")) {
      says(dice.of({"2", "0.5", "4", "16"}));
    } else if (name.ends_with("_abs")) {
      says(dice.of({"0", "1e-06"}));
    } else if (name.ends_with(".read")) {
      says(dice.of({"any", "stored", "computed"}));
    } else if (name.ends_with(".ties")) {
      says(dice.of({"any", "lower"}));
    } else if (name.ends_with(".products")) {
      says(dice.of({"any", "written"}));
    } else if (k.allowed.starts_with("acc|")) {
      says(dice.of({"acc", "f16", "bf16"}));
    }
  }
  return text;
}

struct Tally {
  double worst = 0;
  std::string where;
  std::int64_t judged = 0, unclaimed = 0, decided = 0;
};
inline void tally(const std::vector<Truth>& truths, const std::map<std::string, std::vector<double>>& got,
                  const std::string& what, Tally& t) {
  for (const Truth& truth : truths)
    for (std::size_t i = 0; i < truth.value.size(); ++i) {
      const double limit = truth.limit[i];
      if (limit == kInfinity) {
        ++t.unclaimed;
        continue;
      }
      ++t.judged;
      t.decided += limit == 0;
      const Judged j = judge(got.at(truth.output)[i], truth.value[i], limit);
      const double ratio = j.ok ? std::min(j.ratio, 1.0) : std::max(j.ratio, 1.0000001);
      if (ratio > t.worst || (!j.ok && t.where.empty())) {
        t.worst = std::max(t.worst, ratio);
        if (!j.ok)
          t.where = truth.output + "[" + std::to_string(i) + "] got " +
                    std::to_string(got.at(truth.output)[i]) + " value " + std::to_string(truth.value[i]) +
                    " limit " + std::to_string(limit) + " " + what;
      }
    }
}

}  // namespace assay::formula::testing
