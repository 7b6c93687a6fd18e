// Activations that a path quantises on its way: e4m3fn with one scale, q8_0 and q8_K in blocks.
//
// What a kernel makes of them where the forms of scale and code are not declared. With a = absmax, exact, u =
// 2^-24, and while a / D, D / a, 1 / s are normal numbers: our s is one rounding from a / D and the kernel's
// at most two, so they are within 3 roundings of each other; x / s and x (D / a) add one or two, x (1 / s)
// two: within 5 of the quotient by our s. A product of n factors 1 + d and reciprocals of such is within
// gamma_n of 1 (Higham 2002, lemma 3.1): gamma_3 of the scale, gamma_5 of the quotient, and two more for each
// rounding that a and x had when they were decoded. q8_K's own d = a / 127 is exact here (an f64): gamma_2
// and gamma_4. Where they are not normal (a < D 2^-126) no relative error holds: D / a or 1 / s may be Inf.
//   e4m3fn  a scale of 0, codes of 448, NaN of a zero: nothing is claimed of the tensor (as declared: where
//           the declared form has a 0, an Inf, or under ftz a subnormal scale)
//   q8      the scale is 0 as f16, whatever the codes
//   q8_K, q8 with an f32 scale
//           integers hold no NaN: a code is within -128..127 and the scale within [0, a / D], so an operand
//           is within 128 a / D of 0
// With numbers: a = 2^-125, D = 448: D / a = 2^133.8 is Inf, s = 1 / Inf = 0, where fl(a / D) = 2^-133.8.
// ftz=yes: an x below 2^-126 may be read as 0; a scale below it too, which is the case above, and one that
// f16 holds as a subnormal number: x is then between 0 and what it is.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/ops/decoding.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/operand.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;
constexpr double kLeastNormal = 0x1p-126;
constexpr double kFarCode = 128;
constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};
constexpr EncodePolicy kClamp{};

// Numbers that f32 holds.
bool are_singles(const std::vector<double>& numbers) {
  return std::ranges::all_of(
      numbers, [](double x) { return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x; });
}

float absmax_of(const OperandRow& row, std::size_t first, std::size_t count) {
  float absmax = 0;
  for (std::size_t i = first; i < first + count; ++i)
    absmax = std::max(absmax, static_cast<float>(std::fabs(row.exact[i])));
  return absmax;
}

// An end of an interval, farther out by a relative error.
double outward(double q, double relative, bool up) { return q + (up ? 1 : -1) * relative * std::fabs(q); }

// Every code of a block under some scale of at most `most`.
void any_codes(OperandRow& row, std::size_t first, std::size_t count, double most) {
  for (std::size_t i = first; i < first + count; ++i) {
    row.center[i] = std::isnan(row.exact[i]) ? row.exact[i] : 0;
    row.reach[i] = rule(Rule::scale_underflow, up(kFarCode * most));
  }
}

// A kernel may decode an activation before it multiplies it: beyond the largest f32 that is Inf, as 127 (1 /
// (127 / absmax)) may be.
bool is_single(double operand) { return std::fabs(operand) <= std::numeric_limits<float>::max(); }

// Reaches of a row whose elements up to `first` are decided: those of later ones are for the caller to say.
void open_reach(OperandRow& row, std::size_t first) {
  if (!row.reach.empty()) return;
  row.reach.resize(row.center.size());
  for (std::size_t i = 0; i < first; ++i) row.reach[i] = std::fabs(row.center[i]);
}

// ftz: a scale that f16 holds as a subnormal number, or that is one before it is rounded to f16, may be read
// as 0.
constexpr double kLeastNormalF16 = 0x1p-14;
bool may_vanish(double scale) {
  return scale != 0 && rule(Rule::quotient_flush, 1) > 0 && scale < kLeastNormalF16 * (1 + 0x1p-10);
}
// Operands between what they are and 0.
void admit_zeros(OperandRow& row, std::size_t first, std::size_t count) {
  open_reach(row, first + count);
  for (std::size_t i = first; i < first + count; ++i) {
    if (std::isnan(row.center[i]) || !(row.reach[i] < kInfinity)) continue;
    const double radius = row.reach[i] - std::fabs(row.center[i]),
                 low = std::min(0.0, row.center[i] - radius), high = std::max(0.0, row.center[i] + radius);
    row.center[i] = (low + high) / 2;
    row.reach[i] = up(std::fabs(row.center[i]) + (high - low) / 2);
  }
}

// Codes [low, high] times a scale within `spread` of `scale`.
void integers_times(OperandRow& row, std::size_t i, double low, double high, double scale, double spread) {
  const double middle = (low + high) / 2, radius = rule(Rule::code_step, (high - low) / 2);
  row.center[i] = middle * scale;
  row.reach[i] = up(std::fabs(row.center[i]) + radius * (scale + spread) + std::fabs(middle) * spread);
  if (!is_single(row.reach[i])) row.reach[i] = kInfinity;
}

}  // namespace

double Operands::decoding_roundings() const {
  return format_.kind == FormatKind::scalar ? 0 : std::max(1.0, roundings_);
}

bool Operands::is_declared(const OperandRow& row) const {
  return quantising_.is_declared() && decoding_roundings() <= 1 && are_singles(row.exact);
}

// The numbers that are quantised: gamma of their decoding is counted with the quotient's.
std::vector<Enclosure> Operands::activations(const OperandRow& row, std::int64_t index) const {
  if (!is_decoded_as_stored()) return decoded(row, index);
  if (quantising_.flush && rule(Rule::quotient_flush, 1) > 0)
    return Decoding(tensor_, "f32", 0, true)(index * length_, row.exact);
  std::vector<Enclosure> z(row.exact.size());
  for (std::size_t i = 0; i < z.size(); ++i) z[i].value = row.exact[i];
  return z;
}

void Operands::quantise_e4m3fn(OperandRow& row, std::int64_t index) const {
  static const ScalarFormat& e4m3fn = scalar_format("e4m3fn");
  const float a = tensor_absmax_, s = tensor_scale_;
  row.scale = s;
  row.has_scale = true;
  row.same = false;
  const bool declared = is_declared(row);
  const float inverse = 1.0F / s, direct = a == 0 ? 1.0F : 448.0F / a;
  const double least = a / 448.0 * (1 - 8 * kUnit32);
  bool usable = least >= kLeastNormal;
  if (declared)
    usable = s > 0 && std::isfinite(s) && (quantising_.code != "reciprocal" || std::isfinite(inverse)) &&
             (quantising_.code != "direct" || std::isfinite(direct)) &&
             (!quantising_.flush || least >= kLeastNormal);
  if (!claims(Rule::quotient_range, a == 0 || usable)) {
    row.scale_error = kInfinity;
    return;  // centers of 0
  }
  const double g =
      declared ? 0 : rule(Rule::quotient_rounding, gamma_n(5 + 2 * decoding_roundings(), kUnit32));
  if (!declared) row.scale_error = rule(Rule::scale_rounding, gamma_n(3 + 2 * decoding_roundings(), kUnit32));
  const std::vector<Enclosure> z = activations(row, index);
  const auto code = [&](double x, bool upper) {
    if (!declared) return round_to(e4m3fn, outward(x / s, g, upper), kClamp);
    const auto single = static_cast<float>(x);
    const float q = quantising_.code == "divide"   ? single / s
                    : quantising_.code == "direct" ? single * direct
                                                   : single * inverse;
    return round_to(e4m3fn, static_cast<double>(q), kClamp);
  };
  for (std::size_t i = 0; i < row.exact.size(); ++i) {
    if (!std::isfinite(row.exact[i])) {
      row.center[i] = code(row.exact[i], true);
    } else if (!(z[i].error < kInfinity)) {
      leave_open(row, i);
    } else {
      const double low = code(z[i].error > 0 ? z[i].low() : z[i].value, false),
                   high = code(z[i].error > 0 ? z[i].high() : z[i].value, true);
      const double one = rule(Rule::code_step, 1) > 0 ? high : low;
      admit(row, i, low, one, e4m3fn);
    }
  }
}

// The block's f32 scale and codes are the kernel's.
void Operands::quantise_q8_as_declared(OperandRow& row, std::size_t first) const {
  static const ScalarFormat& f16 = scalar_format("f16");
  static const ScalarFormat& f32 = scalar_format("f32");
  const bool wide = path_ == "q8" && quantising_.scale_format == "f32";
  const float absmax = absmax_of(row, first, 32);
  const float direct = 127.0F / absmax;
  const float d = quantising_.scale == "reciprocal" ? absmax * (1.0F / 127.0F)
                  : quantising_.scale == "inverse"  ? 1.0F / direct
                                                    : absmax / 127.0F;
  const double stored = wide ? static_cast<double>(d) : round_to(f16, static_cast<double>(d), kIeee);
  const float factor = quantising_.code == "direct" ? direct : 1.0F / d;
  // A subnormal scale is off by more than a rounding: quotients of 130 are clamped by one kernel and
  // wrapped by another.
  const bool lost =
      static_cast<double>(d) < kLeastNormal || !std::isfinite(quantising_.code == "divide" ? d : factor);
  if (wide && absmax != 0 && std::isfinite(absmax) && lost) {
    open_reach(row, first);
    any_codes(row, first, 32, absmax / 127.0 + 0x1p-149);
    return;
  }
  for (std::size_t i = first; i < first + 32; ++i) {
    const auto x = static_cast<float>(row.exact[i]);
    const float q = quantising_.code == "divide" ? x / d : x * factor;
    if (std::isnan(x) || stored == 0) {
      row.center[i] = std::isnan(x) ? row.exact[i] : 0;
      if (!row.reach.empty()) row.reach[i] = 0;
      continue;
    }
    double even = static_cast<double>(std::nearbyint(q)), away = static_cast<double>(std::round(q));
    if (quantising_.ties == "even") away = even;
    if (quantising_.ties == "away" || quantising_.ties == "rule") even = away;
    if (rule(Rule::quotient_ties, 1) == 0) away = even;
    double low = std::min(even, away), high = std::max(even, away);
    if (quantising_.flush && std::fabs(row.exact[i]) < kLeastNormal && rule(Rule::quotient_flush, 1) > 0)
      low = std::min(low, 0.0), high = std::max(high, 0.0);
    if (is_single(low * stored) && is_single(high * stored))
      admit(row, i, low * stored, high * stored, f32);
    else
      leave_open(row, i);
  }
  if (quantising_.flush && !wide && may_vanish(stored)) admit_zeros(row, first, 32);
}

// A block of which every way finds the same scale, a power of two, and so the same quotients: 127 2^e / 127.
bool is_decided(float absmax) {
  const float d = absmax / 127.0F;
  int exponent = 0;
  return d >= static_cast<float>(kLeastNormal) && std::isfinite(d) && std::frexp(d, &exponent) == 0.5F &&
         d == absmax * (1.0F / 127.0F) && 1.0F / d == 127.0F / absmax && std::isfinite(1.0F / d);
}

// ggml's q8_0: d = absmax / 127 in f32 (stored as f16), code = round(x / d) with d not yet rounded to f16.
void Operands::quantise_q8(OperandRow& row, std::int64_t index) const {
  static const ScalarFormat& f16 = scalar_format("f16");
  const bool wide = path_ == "q8" && quantising_.scale_format == "f32";
  const double g = rule(Rule::quotient_rounding, gamma_n(5 + 2 * decoding_roundings(), kUnit32)),
               g_scale = rule(Rule::scale_rounding, gamma_n(3 + 2 * decoding_roundings(), kUnit32));
  const bool declared = is_declared(row), known = decoding_roundings() <= 1 && are_singles(row.exact);
  const std::vector<Enclosure> z = declared ? std::vector<Enclosure>() : activations(row, index);
  if (!declared) row.reach.resize(row.exact.size());
  for (std::size_t first = 0; first < row.exact.size(); first += 32) {
    const float absmax = absmax_of(row, first, 32);
    if (declared || (known && is_decided(absmax))) {
      quantise_q8_as_declared(row, first);
      continue;
    }
    const auto d = static_cast<double>(absmax / 127.0F);
    if (wide && absmax != 0 && !(d >= kLeastNormal * (1 + 0x1p-20))) {
      any_codes(row, first, 32, absmax / 127.0 * (1 + g_scale) + 0x1p-149);
      continue;
    }
    const double stored = wide ? d : round_to(f16, d, kIeee);
    const double spread = wide ? g_scale * d
                               : std::max(std::fabs(round_to(f16, d * (1 + g_scale), kIeee) - stored),
                                          std::fabs(round_to(f16, d * (1 - g_scale), kIeee) - stored));
    for (std::size_t i = first; i < first + 32; ++i) {
      if (!(z[i].error < kInfinity)) {
        row.center[i] = row.exact[i], row.reach[i] = kInfinity;
      } else if (d == 0) {
        integers_times(row, i, 0, 0, stored, spread);
      } else {
        const double x_low = z[i].error > 0 ? z[i].low() : z[i].value,
                     x_high = z[i].error > 0 ? z[i].high() : z[i].value;
        integers_times(row, i, std::ceil(outward(x_low / d, g, false) - 0.5),
                       std::floor(outward(x_high / d, g, true) + 0.5), stored, spread);
      }
    }
    if (quantising_.flush && !wide && may_vanish(stored + spread)) admit_zeros(row, first, 32);
  }
  if (!declared) row.undecided.clear();  // not all that is open: `reach` says it
  row.same = false;
}

// ggml's q8_K: id = -127 / m, m the signed element of largest magnitude, code = x id to nearest, at most 127;
// d = 1 / id in f32. Which of two elements of one magnitude is m changes signs of code and d alike.
void Operands::quantise_q8_K(OperandRow& row, std::int64_t index) const {
  constexpr std::size_t kElements = 256;
  const double g = rule(Rule::quotient_rounding, gamma_n(4 + 2 * decoding_roundings(), kUnit32)),
               g_scale = rule(Rule::scale_rounding, gamma_n(2 + 2 * decoding_roundings(), kUnit32));
  const std::vector<Enclosure> z = activations(row, index);
  row.reach.resize(row.exact.size());
  for (std::size_t first = 0; first < row.exact.size(); first += kElements) {
    double absmax = 0;
    for (std::size_t i = first; i < first + kElements; ++i)
      absmax = std::max(absmax, std::fabs(row.exact[i]));
    const double d = absmax / 127;
    if (d != 0 && !(d >= kLeastNormal * (1 + 0x1p-20))) {
      any_codes(row, first, kElements, d * (1 + g_scale) + 0x1p-149);
      continue;
    }
    for (std::size_t i = first; i < first + kElements; ++i) {
      if (!(z[i].error < kInfinity)) {
        row.center[i] = row.exact[i], row.reach[i] = kInfinity;
      } else if (d == 0) {
        integers_times(row, i, 0, 0, 0, 0);
      } else {
        const double x_low = z[i].error > 0 ? z[i].low() : z[i].value,
                     x_high = z[i].error > 0 ? z[i].high() : z[i].value;
        integers_times(row, i, std::ceil(outward(x_low / d, g, false) - 0.5),
                       std::floor(outward(x_high / d, g, true) + 0.5), d, d * g_scale);
      }
    }
  }
  row.same = false;
}

}  // namespace assay
