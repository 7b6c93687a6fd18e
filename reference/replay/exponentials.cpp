#include "reference/replay/exponentials.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

// p 2^n, subnormal results rounded once.
float scaled(float p, float n) {
  const auto exponent = static_cast<std::int32_t>(n);
  const std::int32_t half = exponent >> 1;
  return p * power_of_two(half) * power_of_two(exponent - half);
}

template <bool kFused>
float taylor7(float x) {
  const auto step = [](float a, float b, float c) { return kFused ? std::fma(a, b, c) : a * b + c; };
  const float held = std::min(std::max(x, -105.0F), 90.0F);
  const float n = std::nearbyint(held * 1.44269504F);
  float r = step(-n, 0.693359375F, held);  // 10 bits: the product is exact
  r = step(-n, -2.12194440e-4F, r);
  float p = 1.0F / 5040;
  for (const float c : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F}) p = step(p, r, c);
  const float square = r * r;
  p = step(square, p, r) + 1.0F;
  return std::isnan(x) ? x : scaled(p, n);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                kMost = 88.72283935546875F;  // ln of the largest f32, rounded

float sleef(float x) {
  if (std::isnan(x) || x < -104) return std::isnan(x) ? x : 0;
  if (x > 100) return kInfinity;
  const float n = std::nearbyint(x * 1.44269504F);
  float r = std::fma(-n, 0.693145751953125F, x);  // 16 bits: the product is exact
  r = std::fma(-n, 1.42860677e-06F, r);
  float p = 1.98527618e-4F;
  for (const float c : {1.39304355e-3F, 8.33336078e-3F, 4.16664854e-2F, 0.166666672F, 0.5F})
    p = std::fma(p, r, c);
  return scaled(std::fma(r * r, p, r) + 1.0F, n);
}

constexpr float kLeast = -87.33654022216796875F;  // ln 2^-126, rounded

float degree3(float x) {
  if (x < kLeast) return 0;
  if (x > kMost) return kInfinity;
  const float y = x * std::bit_cast<float>(0x3fb8aa3bU);
  const float fraction = y - std::floor(y);
  float p = std::fma(fraction, -0.079204240219773236F, -0.22433836478672356F);
  p = std::fma(fraction, std::fma(fraction, p, 0.30354260500649682F), 0.00010703434948458272F);
  const float bits = std::fma(0x1p23F, y - p, 127 * 0x1p23F);
  return std::isnan(x) ? x : std::bit_cast<float>(static_cast<std::int32_t>(bits));
}

float degree5(float x) {
  if (x < kLeast) return 0;
  if (x > kMost) return kInfinity;
  const float n = std::floor(std::fma(x, 1.44269502162933349609375F, 0.5F));
  const float r = std::fma(-n, 0.693147182464599609375F, x);
  float p = std::bit_cast<float>(0x3c07cfceU);
  for (const std::uint32_t c : {0x3d2b9d0dU, 0x3e2aad40U, 0x3efffee3U, 0x3f7ffffbU, 0x3f800000U})
    p = std::fma(p, r, std::bit_cast<float>(c));
  return p * power_of_two(static_cast<std::int32_t>(n) - 1) * 2.0F;
}

float arm(float x) {
  if (x > kMost) return kInfinity;
  constexpr float kShifter = 0x1.8p23F;
  const float shifted = std::fma(x, 0x1.715476p+0F, kShifter);
  const float n = shifted - kShifter;
  const float b = std::fma(-n, 0x1.7f7d1cp-20F, std::fma(-n, 0x1.62e4p-1F, x));
  const float u = b * b;
  const float j = std::fma(
      std::fma(std::fma(0x1.0e4020p-7F, b, 0x1.573e2ep-5F), u, std::fma(0x1.555e66p-3F, b, 0x1.fffdb6p-2F)),
      u, 0x1.ffffecp-1F * b);
  if (n < -192) return 0;
  const auto exponent = static_cast<std::int32_t>(n);
  if (exponent >= -126) {
    const float k = power_of_two(exponent);
    return std::fma(k, j, k);
  }
  // Two factors, the first as small as it may be: the result is rounded to a subnormal number once more.
  const float s1 = std::bit_cast<float>(0x7f000000U + 0x82000000U);
  const float s2 =
      std::bit_cast<float>((static_cast<std::uint32_t>(exponent) << 23) + 0x3f800000U - 0x82000000U);
  return std::fma(s2, j, s2) * s1;
}

double series9_wide(double x) {
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double s = 2.75573192239858906526e-6;
  for (const double c :
       {2.48015873015873015873e-5, 1.98412698412698412698e-4, 1.38888888888888888889e-3,
        8.33333333333333333333e-3, 4.16666666666666666667e-2, 1.66666666666666666667e-1, 0.5, 1.0, 1.0}) {
    const double product = s * r;
    s = product + c;
  }
  return std::ldexp(s, static_cast<int>(n));
}
float series9(float x) {
  if (std::isnan(x)) return x;
  if (x < -104) return 0;
  return x > 89 ? kInfinity : static_cast<float>(series9_wide(static_cast<double>(x)));
}

float ex2(float x) { return ex2_approx_ftz(x * 1.44269504F); }
float nearest(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float libm(float x) { return std::exp(x); }

}  // namespace

RowExp row_exp(std::string_view word) {
  if (word == "taylor7") return taylor7<true>;
  if (word == "taylor7_mul") return taylor7<false>;
  if (word == "sleef") return sleef;
  if (word == "degree5") return degree5;
  if (word == "arm") return arm;
  if (word == "series9") return series9;
  if (word == "degree3") return degree3;
  if (word == "cuda_expf") return cuda_expf;
  if (word == "ex2") return ex2;
  return word == "nearest" ? nearest : libm;
}

float series9_tanh(float x) {
  constexpr float kOwn = 0x1p-13F, kFlat = 20;  // x itself below, +-1 above
  const float magnitude = std::fabs(x);
  if (!(magnitude >= kOwn)) return x;
  if (magnitude > kFlat) return std::copysign(1.0F, x);
  const double e = series9_wide(2.0 * static_cast<double>(x));
  return static_cast<float>((e - 1.0) / (e + 1.0));
}

}  // namespace assay
