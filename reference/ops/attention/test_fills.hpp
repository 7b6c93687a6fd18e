// Inputs of attention tests: one row of q, one head of K and V, exact in the formats asked for. The designs
// have the names of cases/fills, whose inputs fill whole calls; here the logits are designed to the last bit:
// equal ones are q.k = 0 by products that cancel in pairs, so that K is not trivial.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "reference/formats/scalar.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay {

// Each is shaped for the fault that it shows best. The value goes into the seed of its draws.
enum class Design : char {
  needle = 'B',         // at + ln n, V = 1 only there
  equal_onehot = 'E',   // equal logits, V one-hot by j mod dv
  window_onehot = 'W',  // V one-hot by windows of 32 keys
  onehot = 'O',         // one-hot attention
  ramp = 'R',           // the maximum changes in every tile
  low_logits = 'M',     // all logits about -300
  future = 'X',         // a needle on the last visible key, a stronger one masked after it
  constant = 'A',       // equal logits, constant V
  cancel = 'C',         // cancellation in q.k
  huge_logits = 'H',    // |logit| about 1e4
  ties = 'T',           // near ties
  gaussian = 'G',
  subnormal = 'U',  // gaussian with tiny V
};
inline constexpr std::array kDesigns{
    Design::needle,     Design::equal_onehot, Design::window_onehot, Design::onehot, Design::ramp,
    Design::low_logits, Design::future,       Design::constant,      Design::cancel, Design::huge_logits,
    Design::ties,       Design::gaussian,     Design::subnormal};
inline constexpr std::array<std::string_view, kDesigns.size()> kDesignNames{
    "needle",   "equal_onehot", "window_onehot", "onehot", "ramp",     "low_logits", "future",
    "constant", "cancel",       "huge_logits",   "ties",   "gaussian", "subnormal"};
constexpr std::string_view to_string(Design design) {
  return kDesignNames[static_cast<std::size_t>(std::ranges::find(kDesigns, design) - kDesigns.begin())];
}
inline std::ostream& operator<<(std::ostream& out, Design design) { return out << to_string(design); }

struct AttentionFill {
  std::int64_t keys, d, dv;
  std::string q_format, k_format, v_format;
  std::vector<float> q, k, v;
  std::vector<std::uint8_t> visible;  // empty: all
  double scale;

  KeyValues kv() const { return {keys, d, dv, k, v, k_format, v_format}; }
  QueryRow row() const {
    QueryRow r;
    r.q = q, r.q_format = q_format, r.scale = scale, r.visible = visible;
    return r;
  }
};

inline AttentionFill attention_fill(Design fill, std::int64_t keys, std::int64_t d, std::int64_t dv,
                                    const std::string& q_format, const std::string& k_format,
                                    const std::string& v_format, std::uint64_t seed) {
  AttentionFill f{
      keys, d, dv, q_format, k_format, v_format, {}, {}, {}, {}, 1 / std::sqrt(static_cast<double>(d))};
  std::mt19937_64 random(seed * 1000003 + static_cast<std::uint64_t>(fill) * 7919 +
                         static_cast<std::uint64_t>(keys));
  std::normal_distribution<double> normal;
  const auto in = [](std::string_view format, double x) {
    return format == "f32" ? static_cast<float>(x) : static_cast<float>(round_to(scalar_format(format), x));
  };
  const std::size_t n = static_cast<std::size_t>(keys), width = static_cast<std::size_t>(d);
  f.q.resize(width), f.k.resize(n * width), f.v.resize(n * static_cast<std::size_t>(dv));
  const bool signs = fill != Design::cancel && fill != Design::gaussian && fill != Design::subnormal;
  const double magnitude = fill == Design::low_logits || fill == Design::huge_logits ? 4 : 1;
  for (auto& q : f.q)
    q = in(q_format, signs ? (normal(random) > 0 ? magnitude : -magnitude) : normal(random));
  const double log_n = std::log(static_cast<double>(keys));
  for (std::size_t j = 0; j < n; ++j) {
    float* k = f.k.data() + j * width;
    double logit = 0;  // added to what the pairs give (0)
    if (fill == Design::needle && j == n / 3) logit = log_n;
    if (fill == Design::onehot && j == n / 3) logit = 4 * log_n;
    if (fill == Design::future && j + 2 >= n) logit = j + 2 == n ? log_n : 2 * log_n;
    if (fill == Design::ramp) logit = 20.0 * static_cast<double>(j) / static_cast<double>(n);
    if (fill == Design::low_logits) logit = -300 + normal(random);
    if (fill == Design::huge_logits) logit = 1e4 * (normal(random) > 0 ? 1 : -1) + normal(random);
    if (fill == Design::ties) logit = 2 + 1e-3 * static_cast<double>(j % 7);
    const double each = logit / (f.scale * static_cast<double>(d) * magnitude);
    for (std::size_t i = 0; i < width; i += 2) {
      const bool pair = i + 1 < width;
      if (signs) {
        const float x = in(k_format, 0.5 * normal(random));
        const double first = (f.q[i] > 0 ? 1 : -1), second = pair ? (f.q[i + 1] > 0 ? 1 : -1) : 0;
        k[i] = in(k_format, pair ? x + each * first : each * first);
        if (pair) k[i + 1] = in(k_format, -x * first * second + each * second);
      } else if (fill == Design::cancel) {  // large products that nearly cancel
        const double x = 16 * normal(random);
        k[i] = in(k_format, x / (std::fabs(f.q[i]) + 0.25));
        if (pair) k[i + 1] = in(k_format, -k[i] * f.q[i] / (std::fabs(f.q[i + 1]) < 0.1 ? 0.1 : f.q[i + 1]));
      } else {
        k[i] = in(k_format, normal(random));
        if (pair) k[i + 1] = in(k_format, normal(random));
      }
    }
  }
  if (fill == Design::future) f.visible.assign(n, 1), f.visible.back() = 0;
  const double tiny = v_format == "f32" || v_format == "bf16" ? 0x1p-120
                      : v_format == "f16"                     ? 0x1p-20
                                                              : 0x1p-8;
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(dv); ++c) {
      double v = normal(random);
      const auto columns = static_cast<std::size_t>(dv);
      switch (fill) {
        case Design::needle:
          v = j == n / 3;
          break;
        case Design::equal_onehot:
          v = j % columns == c;
          break;
        case Design::window_onehot:
          v = (j / 32) % columns == c;
          break;
        case Design::future:
          v = j + 2 == n ? 1 : 0;
          break;
        case Design::constant:
          v = 1;
          break;
        case Design::subnormal:
          v *= tiny;
          break;
        default:
          break;
      }
      f.v[j * columns + c] = in(v_format, v);
    }
  }
  return f;
}

}  // namespace assay
