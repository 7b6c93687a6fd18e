// A quantiser of scaled formats that is simulated step by step, for the tests of its limits.
#pragma once

#include <functional>
#include <limits>

#include "reference/formats/scaled.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// How a kernel quantises, step by step in f32.
struct Steps {
  std::string scale = "divide", scale_format = "f32", code = "divide", code_scale = "stored",
              quotient = "f32";
  int ulps = 0;                                     // the scale moved by so many
  double least = -1e30;                             // of the codes
  std::function<float(float, float)> maximum = {};  // (running, next) of magnitudes; the finite ones' without
  float largest_absmax = kInf;                      // clamped to this
  std::string contract() const {
    return "scale=" + scale + " scale_format=" + scale_format + " code=" + code +
           " code_scale=" + code_scale + " quotient=" + quotient;
  }
};
struct Stored {
  Values codes, scales;
  std::vector<double> y;
};
inline Stored quantised(const Format& to, const Shape& shape, const Values& x, const Steps& k) {
  const ScalarFormat& element = scalar_format(to.element);
  const float d = static_cast<float>(to.scale_divisor);
  const Axes axes = axes_of(shape);
  Stored out;
  Values absmax(element_count(scale_shape(to, shape)), 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& running = absmax[scale_index(to.axis, axes, i)];
    const float next = std::fabs(x[i]);
    running = k.maximum ? k.maximum(running, next) : std::isfinite(next) ? std::max(running, next) : running;
  }
  Values exact, multiplier;
  for (float a : absmax) {
    a = std::min(a, k.largest_absmax);
    float s = k.scale == "divide" ? a / d : k.scale == "reciprocal" ? a * (1.0F / d) : 1.0F / (d / a);
    for (int n = 0; n < std::abs(k.ulps); ++n) s = std::nextafter(s, k.ulps > 0 ? kInf : 0.0F);
    if (a == 0) s = 1;
    exact.push_back(s);
    multiplier.push_back(a == 0 ? 1 : d / a);
    out.scales.push_back(Arithmetic{k.scale_format}(s));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto g = static_cast<std::size_t>(scale_index(to.axis, axes, i));
    const float s = k.code_scale == "stored" ? out.scales[g] : exact[g];
    const float q = k.code == "divide"       ? x[i] / s
                    : k.code == "reciprocal" ? x[i] * (1.0F / s)
                                             : x[i] * multiplier[g];
    out.codes.push_back(static_cast<float>(std::max(round_to(element, Arithmetic{k.quotient}(q)), k.least)));
    out.y.push_back(static_cast<double>(out.codes.back()) * out.scales[g]);
  }
  return out;
}

}  // namespace assay::testing
