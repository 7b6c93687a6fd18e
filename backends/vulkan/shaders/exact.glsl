// Arithmetic that a device may not round as it likes: f32 results by bit code from f64 or integers, subnormals
// included, and exp, log, tanh, rsqrt within a known ulp. Vulkan promises correctly rounded f64 addition and
// multiplication, but neither f32 subnormals nor quotients nor exp ((3 + 2 |x|) ulp).

// Exact; a device that flushes f32 subnormals does not see one here.
double widen(float x) {
  const uint bits = floatBitsToUint(x);
  if ((bits & 0x7F800000u) != 0u) return double(x);
  const double m = double(bits & 0x7FFFFFu) * packDouble2x32(uvec2(0u, 0x36A00000u));  // 2^-149
  return (bits >> 31) != 0u ? -m : m;
}

// 2^n, -1022 <= n <= 1023.
double power_of_two(int n) { return packDouble2x32(uvec2(0u, uint(n + 1023) << 20)); }

// Rounded to f32, nearest even, subnormals included.
float narrow(double x) {
  const uvec2 w = unpackDouble2x32(x);
  const uint sign = w.y & 0x80000000u;
  const int exponent = int(w.y >> 20 & 0x7FFu);
  const uint64_t fraction = uint64_t(w.y & 0xFFFFFu) << 32 | uint64_t(w.x);
  if (exponent == 0x7FF) return uintBitsToFloat(sign | (fraction != 0 ? 0x7FC00000u : 0x7F800000u));
  if (exponent == 0) return uintBitsToFloat(sign);
  const int e = exponent - 1023;
  if (e > 127) return uintBitsToFloat(sign | 0x7F800000u);
  const int shift = e >= -126 ? 29 : 29 - 126 - e;
  if (shift > 54) return uintBitsToFloat(sign);
  const uint64_t m = fraction | uint64_t(1) << 52;
  const uint64_t half_ = uint64_t(1) << (shift - 1);
  const uint64_t rest = m & ((half_ << 1) - 1);
  uint rounded = uint(m >> shift);
  if (rest > half_ || (rest == half_ && (rounded & 1u) != 0u)) ++rounded;
  // The leading bit adds 1 to the exponent field; a carry out of the fraction runs into it by itself.
  const uint bits = e >= -126 ? (uint(e + 126) << 23) + rounded : rounded;
  return uintBitsToFloat(sign | bits);
}

float mul_exact(float a, float b) { return narrow(widen(a) * widen(b)); }
float add_exact(float a, float b) { return narrow(widen(a) + widen(b)); }
float sub_exact(float a, float b) { return narrow(widen(a) - widen(b)); }

// The IEEE f32 quotient: an integer quotient of the significands with a sticky bit, rounded once.
float div_exact(float a, float b) {
  const uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  const uint x = floatBitsToUint(a) & 0x7FFFFFFFu;
  const uint y = floatBitsToUint(b) & 0x7FFFFFFFu;
  if (x > 0x7F800000u || y > 0x7F800000u || (x == 0u && y == 0u) || (x == 0x7F800000u && y == 0x7F800000u)) {
    return not_a_number();
  }
  if (x == 0x7F800000u || y == 0u) return uintBitsToFloat(sign | 0x7F800000u);
  if (x == 0u || y == 0x7F800000u) return uintBitsToFloat(sign);
  const int up_x = (x >> 23) == 0u ? 23 - findMSB(x) : 0;
  const int up_y = (y >> 23) == 0u ? 23 - findMSB(y) : 0;
  const uint mx = (x >> 23) == 0u ? x << up_x : (x & 0x7FFFFFu) | 0x800000u;
  const uint my = (y >> 23) == 0u ? y << up_y : (y & 0x7FFFFFu) | 0x800000u;
  const int ex = max(int(x >> 23), 1) - up_x;
  const int ey = max(int(y >> 23), 1) - up_y;
  const uint64_t numerator = uint64_t(mx) << 26;
  const uint64_t quotient = numerator / uint64_t(my);
  const bool inexact = quotient * uint64_t(my) != numerator;
  const double value = double(uint(quotient << 1) | (inexact ? 1u : 0u)) * power_of_two(ex - ey - 27);
  return uintBitsToFloat(sign | floatBitsToUint(narrow(value)));
}

// e^x in f64, |x| <= 700, relative error below 2^-33: the remainder of the series of degree 9 on |r| <= 0.3466
// is 0.3466^10 / 10! < 2^-36, and f64 rounds at 2^-52.
double exp_wide(double x) {
  const double n = floor(x * 1.4426950408889634lf + 0.5lf);
  const double r = (x - n * 0.693147180369123816490lf) - n * 1.90821492927058770002e-10lf;
  double s = 2.75573192239858906526e-6lf;
  s = s * r + 2.48015873015873015873e-5lf;
  s = s * r + 1.98412698412698412698e-4lf;
  s = s * r + 1.38888888888888888889e-3lf;
  s = s * r + 8.33333333333333333333e-3lf;
  s = s * r + 4.16666666666666666667e-2lf;
  s = s * r + 1.66666666666666666667e-1lf;
  s = s * r + 0.5lf;
  s = s * r + 1.0lf;
  s = s * r + 1.0lf;
  return s * power_of_two(int(n));
}
// Within 0.51 ulp; below 2^-126 the result may be flushed.
float exp_f32(float x) {
  if (is_nan(x)) return x;
  if (x < -104.0) return 0.0;
  if (x > 89.0) return infinity();
  return float(exp_wide(double(x)));
}

// Within 0.51 ulp. Small arguments: tanh x = x - x^3 / 3 + ..., relative error x^2 / 3 < 2^-27.
float tanh_f32(float x) {
  if (is_nan(x)) return x;
  const float m = magnitude(x);
  if (m < 1.220703125e-4) return x;
  if (m > 20.0) return x < 0.0 ? -1.0 : 1.0;
  const double e = exp_wide(2.0lf * double(x));
  return float((e - 1.0lf) / (e + 1.0lf));
}

// log of a normal f32 > 0 within 0.51 ulp: m in [0.7, 1.42), z = (m - 1) / (m + 1), |z| < 0.18, and the series
// 2 (z + z^3 / 3 + ...) up to z^19, whose remainder is below 2^-55 z.
float log_f32(float x) {
  if (is_nan(x) || x == infinity()) return x;
  if (x == 0.0) return -infinity();
  if (x < 0.0) return not_a_number();
  uint bits = floatBitsToUint(x);
  int exponent = int(bits >> 23) - 127;
  bits = (bits & 0x7FFFFFu) | 0x3F800000u;
  if (bits >= 0x3FB504F3u) {
    bits -= 0x800000u;
    ++exponent;
  }
  const double m = double(uintBitsToFloat(bits));
  const double z = (m - 1.0lf) / (m + 1.0lf);
  const double w = z * z;
  double s = 1.0lf / 19.0lf;
  s = s * w + 1.0lf / 17.0lf;
  s = s * w + 1.0lf / 15.0lf;
  s = s * w + 1.0lf / 13.0lf;
  s = s * w + 1.0lf / 11.0lf;
  s = s * w + 1.0lf / 9.0lf;
  s = s * w + 1.0lf / 7.0lf;
  s = s * w + 1.0lf / 5.0lf;
  s = s * w + 1.0lf / 3.0lf;
  s = s * w + 1.0lf;
  return float(2.0lf * z * s + double(exponent) * 0.69314718055994530942lf);
}

// 1 / sqrt(x) within 0.51 ulp for x > 0: one Newton step in f64 squares the 2 ulp of inversesqrt.
float rsqrt_f32(float x) {
  const float first = inversesqrt(x);
  if (!is_finite(first) || !is_finite(x) || !(x > 0.0)) return first;
  const double y = double(first);
  return float(y * (1.5lf - 0.5lf * double(x) * y * y));
}
double sqrt_wide(double x) {  // relative error below 2^-40
  if (!(x > 0.0lf)) return 0.0lf;
  const double y = double(inversesqrt(float(x)));
  return x * (y * (1.5lf - 0.5lf * x * y * y));
}
// Within 0.51 ulp.
float quotient_f32(float a, float b) { return float(double(a) / double(b)); }

// x rounded to an integer, ties to even, held to [low, high]; NaN gives high.
int round_to_integer(float x, int low, int high_) {
  if (is_nan(x)) return high_;
  const float held = clamp(x, float(low), float(high_));
  const float below = floor(held);
  const float rest = held - below;  // exact
  int n = int(below);
  if (rest > 0.5 || (rest == 0.5 && (n & 1) != 0)) ++n;
  return n;
}
