// Scaled formats: every scale, every quotient and every code that the contract admits, computed as kernels do.
#include <algorithm>
#include <cmath>
#include <optional>

#include "reference/error.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;
constexpr double kMostUlps = 8;  // every neighbour is tried

// One rounding to nearest even in f32, f16 or bf16.
float rounded_in(std::string_view format, float x) {
  if (format == "f16") return static_cast<float>(round_f16(x));
  if (format == "bf16") return static_cast<float>(round_bf16(x));
  return x;
}

// How a quotient becomes a code, and that a number.
class Coder {
 public:
  Coder(const Format& to, const Contract& contract)
      : elements_(admissible_codes(scalar_format(to.element), contract)),
        policy_(quantise_policy(contract)),
        how_(contract.text("code")),
        quotient_(contract.text("quotient")),
        code_scale_(contract.text("code_scale")),
        error_(gamma_n(4 + 2 * contract.number("scale_ulp"), kUnit32)) {}

  // Every number that x may be stored as under this scale; NaN where a kernel's arithmetic gives none.
  template <typename Visit>
  void each(float x, const AdmissibleScale& s, const Visit& visit) const {
    const auto admit = [&](double quotient) {
      const double narrow =
          quotient_ == "f32" ? quotient : rounded_in(quotient_, static_cast<float>(quotient));
      for (const ScalarFormat& element : elements_)
        visit(std::isnan(narrow) && !std::isnan(x) ? narrow : round_to(element, narrow, policy_) * s.stored);
    };
    if (how_ == "divide") {
      admit(x / s.divisor);
    } else if (how_ == "reciprocal") {
      admit(x * (1.0F / s.divisor));
    } else if (how_ == "direct") {
      admit(x * s.multiplier);
    } else {
      const double quotient = static_cast<double>(x) / s.divisor;
      admit(quotient);
      admit(quotient * (1 - error_));
      admit(quotient * (1 + error_));
      // Where a reciprocal leaves the range of f32 no relative error holds, and the operations themselves decide.
      admit(x * (1.0F / s.divisor));
      if (code_scale_ != "stored" || s.stored == s.divisor) admit(x * s.multiplier);
    }
  }

  const ScalarFormat& element() const { return elements_.front(); }
  const EncodePolicy& policy() const { return policy_; }
  // See absmax=any at the head of admissible.hpp: the roundings before the code, the doubled quotient's too, and in
  // the stored scale, which a subnormal of f16 may double once more.
  double some_scale_error(float x) const {
    const double narrow = quotient_ == "bf16" ? 0x1p-8 : quotient_ == "f16" ? 0x1p-11 : 0.0;
    return std::fabs(static_cast<double>(x)) * (1 + 2 * narrow + 4 * error_);
  }
  double largest() const { return std::max(element().max_finite, -element().integer_min); }

 private:
  std::vector<ScalarFormat> elements_;
  EncodePolicy policy_;
  std::string_view how_, quotient_, code_scale_;
  double error_;
};

// Groups with a NaN or Inf under absmax=any.
void claim_under_some_scale(Truth& truth, std::size_t i, float x, const Coder& coder,
                            const Contract& contract) {
  if (std::isfinite(x)) {
    truth.value[i] = x;
    truth.limit[i] = coder.some_scale_error(x);
    if (contract.text("scale_format") != "f32") truth.limit[i] = 2 * truth.limit[i] + std::fabs(x);
    // A scale below 2^-126 has no reciprocal in f32: the code may be the largest, times such a scale.
    truth.limit[i] = up(truth.limit[i] + coder.largest() * 0x1p-126);
  } else if (std::isnan(x) && coder.policy().nan == NanPolicy::propagate && has_nan(coder.element())) {
    set_special(truth, i, std::nan(""));
  } else if (std::isnan(x) && coder.policy().nan == NanPolicy::zero) {
    set_special(truth, i, 0.0);
  } else {
    set_unclaimed(truth, i);
  }
}

}  // namespace

std::vector<ScalarFormat> admissible_codes(const ScalarFormat& element, const Contract& contract) {
  std::vector<ScalarFormat> list(1, element);
  if (element.kind != ScalarKind::integer || !element.is_signed || element.bits > 8) return list;
  const std::string_view range = contract.text("int_range");
  list.front().integer_min = -element.integer_max - (range == "symmetric" ? 0 : 1);
  if (range == "any") {
    list.push_back(element);
    list.back().integer_min = -element.integer_max;
  }
  return list;
}

std::vector<AdmissibleScale> admissible_scales(float absmax, float divisor, const Contract& contract) {
  if (absmax == 0) return {kUnitScale};
  const double ulps = contract.number("scale_ulp");
  if (ulps > kMostUlps || ulps != std::floor(ulps))
    throw InputError(InputErrorKind::bad_value, "scale_ulp: a whole number of 0..8 is allowed");
  const std::string_view how = contract.text("scale"), format = contract.text("scale_format");
  const std::string_view from = contract.text("code_scale");
  const float multiplier = divisor / absmax;
  std::vector<AdmissibleScale> list;
  const auto admit = [&](float exact) {
    const float stored = rounded_in(format, exact);
    if (from != "exact" || stored == exact) list.push_back({stored, stored, multiplier});
    if (from != "stored" && stored != exact) list.push_back({stored, exact, multiplier});
  };
  const auto formed = [&](float scale) {
    admit(scale);
    float below = scale, above = scale;
    for (int i = 0; i < static_cast<int>(ulps); ++i) {
      admit(below = std::nextafter(below, 0.0F));
      admit(above = std::nextafter(above, INFINITY));
    }
  };
  // The formats store 1 for a quotient that underflows to 0.
  const auto or_one = [](float scale) { return scale == 0 ? 1.0F : scale; };
  if (how == "divide" || how == "any") formed(or_one(absmax / divisor));
  if (how == "reciprocal" || how == "any") formed(or_one(absmax * (1.0F / divisor)));
  if (how == "inverse" || how == "any") formed(1.0F / multiplier);
  return list;
}

std::vector<float> group_absmax(const Format& to, const Shape& shape, std::span<const float> values) {
  const Axes axes = axes_of(shape);
  std::vector<float> absmax(static_cast<std::size_t>(element_count(scale_shape(to, shape))), 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& group = absmax[scale_index(to.axis, axes, static_cast<std::int64_t>(i))];
    if (std::isfinite(values[i])) group = std::max(group, std::fabs(values[i]));
  }
  return absmax;
}

void admit_quantised_with_scales(Truth& truth, const Format& to, const Shape& shape,
                                 std::span<const float> values,
                                 const std::vector<std::vector<AdmissibleScale>>& scales,
                                 const Contract& contract) {
  const Coder coder(to, contract);
  const Axes axes = axes_of(shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& group = scales[scale_index(to.axis, axes, static_cast<std::int64_t>(i))];
    std::optional<double> first;
    double limit = 0, largest = 0;
    bool number = true, same = true;
    for (const AdmissibleScale& s : group) {
      coder.each(values[i], s, [&](double admitted) {
        if (!first) first = admitted;
        number = number && std::isfinite(admitted);
        same = same && (admitted == *first || (std::isnan(admitted) && std::isnan(*first)));
        if (!(admitted == *first)) limit = std::max(limit, up(std::fabs(admitted - *first)));
      });
      largest = std::max(largest, static_cast<double>(s.stored));
    }
    truth.value[i] = *first;
    truth.limit[i] = limit;
    if (std::isnan(values[i]) && coder.policy().nan == NanPolicy::propagate) {
      if (has_nan(coder.element())) {
        set_special(truth, i, std::nan(""));
      } else if (std::isfinite(largest)) {  // some code
        truth.value[i] = 0;
        truth.limit[i] = up(coder.largest() * largest);
      } else {
        set_unclaimed(truth, i);
      }
    } else if (!number) {
      if (std::isinf(values[i]) && same) {
        set_special(truth, i, *first);  // overflow=ieee: the format's Inf, or its NaN
      } else {
        set_unclaimed(truth, i);
      }
    }
  }
}

void admit_scaled(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                  const Contract& contract) {
  std::vector<std::vector<AdmissibleScale>> scales;
  const std::vector<float> absmax = group_absmax(to, shape, values);
  for (const float each : absmax)
    scales.push_back(admissible_scales(each, static_cast<float>(to.scale_divisor), contract));
  admit_quantised_with_scales(truth, to, shape, values, scales, contract);
  const Axes axes = axes_of(shape);
  const auto group_of = [&](std::size_t i) {
    return static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)));
  };
  if (contract.text("absmax") == "finite") {
    // A group of zeros may store any scale: nothing is known of what an Inf saturates to.
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isinf(values[i]) && absmax[group_of(i)] == 0) set_unclaimed(truth, i);
    return;
  }
  std::vector<char> finite(scales.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) finite[group_of(i)] = 0;
  const Coder coder(to, contract);
  // Of an absmax this small D / absmax overflows, and 0 Inf is NaN.
  const auto least_absmax = static_cast<float>(coder.largest() * 0x1p-126);
  std::vector<char> overflows(scales.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0 && std::fabs(values[i]) < least_absmax) overflows[group_of(i)] = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (finite[group_of(i)] != 0) continue;
    if (overflows[group_of(i)] != 0 && std::isfinite(values[i]))
      set_unclaimed(truth, i);
    else
      claim_under_some_scale(truth, i, values[i], coder, contract);
  }
}

namespace {

struct Ends {
  double low = 0, high = 0;
  void admit(double x, bool first) {
    low = first ? x : std::min(low, x), high = first ? x : std::max(high, x);
  }
  double least() const { return std::min(std::fabs(low), std::fabs(high)); }
  double most() const { return std::max(std::fabs(low), std::fabs(high)); }
};

// Elements [first, first + e.size()) of a group under one scale_2, what they may be as FP8 in `e`: every number that they may be
// stored as.
template <typename Visit>
void each_second_stage(const std::vector<Ends>& e, const Coder& int4, const Contract& contract, Visit visit) {
  double certain = 0;
  for (const Ends& each : e) certain = std::max(certain, each.least());
  std::vector<double> largest(1, certain);
  for (const Ends& each : e)
    if (each.most() > certain) largest.push_back(each.most());
  std::ranges::sort(largest);
  largest.erase(std::unique(largest.begin(), largest.end()), largest.end());
  for (const double absmax : largest)
    for (const AdmissibleScale& s1 : admissible_scales(static_cast<float>(absmax), 7, contract))
      for (std::size_t i = 0; i < e.size(); ++i)
        for (const double in_fp8 : {e[i].low, e[i].high})
          if (std::fabs(in_fp8) <= absmax)
            int4.each(static_cast<float>(in_fp8), s1, [&](double number) { visit(i, number); });
}

}  // namespace

void admit_two_scales(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                      const Contract& contract) {
  const Coder fp8(format("e4m3fn_tensor"), contract), int4(format("int4_ch"), contract);
  const std::size_t size = to.name == "int4_ch_tensor" ? static_cast<std::size_t>(shape.back()) : 32;
  float absmax = 0;
  bool all_finite = true;
  for (const float x : values) {
    all_finite = all_finite && std::isfinite(x);
    if (std::isfinite(x)) absmax = std::max(absmax, std::fabs(x));
  }
  const std::vector<AdmissibleScale> seconds = admissible_scales(absmax, 448, contract);
  for (std::size_t first = 0; first < values.size(); first += size) {
    const auto group = values.subspan(first, size);
    bool number = std::ranges::all_of(group, [](float x) { return std::isfinite(x); }) &&
                  (all_finite || contract.text("absmax") == "finite");
    std::vector<Ends> admitted(size);
    std::vector<char> seen(size, 0);
    for (const AdmissibleScale& s2 : seconds) {
      std::vector<Ends> e(size);
      for (std::size_t i = 0; i < size && number; ++i) {
        bool none = true;
        // `each` gives code times stored scale, whose quotient by that scale is the code again.
        fp8.each(group[i], s2, [&](double x) {
          number = number && std::isfinite(x);
          e[i].admit(x / s2.stored, none);
          none = false;
        });
      }
      if (!number) break;
      each_second_stage(e, int4, contract, [&](std::size_t i, double x) {
        number = number && std::isfinite(x);
        if (seen[i] == 0) truth.value[first + i] = x * s2.stored;
        admitted[i].admit(x * s2.stored, seen[i] == 0);
        seen[i] = 1;
      });
    }
    for (std::size_t i = 0; i < size; ++i) {
      const double value = truth.value[first + i];
      truth.limit[first + i] = admitted[i].low == admitted[i].high
                                   ? 0
                                   : up(std::max(admitted[i].high - value, value - admitted[i].low));
      if (!number) set_unclaimed(truth, first + i);
    }
  }
}

}  // namespace assay
