// int4 of FP8: two scales, one after the other, every one that the contract admits.
#include <algorithm>
#include <cmath>

#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

struct Ends {
  double low = 0, high = 0;
  void admit(double x, bool first) {
    low = first ? x : std::min(low, x), high = first ? x : std::max(high, x);
  }
  double least() const { return low < 0 && high > 0 ? 0 : std::min(std::fabs(low), std::fabs(high)); }
  double most() const { return std::max(std::fabs(low), std::fabs(high)); }
};

// The next number of e4m3fn above one of them.
double next_fp8(double x) {
  constexpr int kLeastExponent = -6, kFractionBits = 3;
  return x +
         std::ldexp(1.0, std::max(x > 0 ? std::ilogb(x) : kLeastExponent, kLeastExponent) - kFractionBits);
}

// The elements of a group under one scale_2, what they may be as FP8 in `e`: every number that they may be
// stored as. absmax may be any number of FP8 from the largest |e| that is certain on: another one makes other
// steps, between those of both ends and beyond.
template <typename Visit>
void each_second_stage(const std::vector<Ends>& e, const Coder& int4, const Contract& contract, Visit visit) {
  double certain = 0, most = 0;
  for (const Ends& each : e) certain = std::max(certain, each.least()), most = std::max(most, each.most());
  for (double absmax = certain; absmax <= most; absmax = next_fp8(absmax))
    for (const AdmissibleScale& s1 :
         admissible_scales(static_cast<float>(absmax), declared_divisor(7, contract), contract))
      for (std::size_t i = 0; i < e.size(); ++i)
        for (const double end : {e[i].low, e[i].high}) {
          const double in_fp8 = std::clamp(end, -absmax, absmax);
          if (in_fp8 >= e[i].low && in_fp8 <= e[i].high)
            int4.each(static_cast<float>(in_fp8), s1, [&](double number) { visit(i, number); });
        }
}

}  // namespace

void admit_two_scales(Truth& truth, const Format& to, const Shape& shape, std::span<const float> low,
                      std::span<const float> high, const Contract& contract) {
  const Coder fp8(format("e4m3fn_tensor"), contract), int4(format("int4_ch"), contract);
  const std::size_t size = to.name == "int4_ch_tensor" ? static_cast<std::size_t>(shape.back()) : 32;
  const bool exact = low.data() == high.data();
  float least = 0, most = 0;  // of absmax
  bool all_finite = true;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const Ends x{low[i], high[i]};
    all_finite = all_finite && std::isfinite(low[i]) && std::isfinite(high[i]);
    if (!std::isfinite(low[i]) || !std::isfinite(high[i])) continue;
    least = std::max(least, static_cast<float>(x.least())),
    most = std::max(most, static_cast<float>(x.most()));
  }
  std::vector<AdmissibleScale> seconds = admissible_scales(least, 448, contract);
  if (most != least)
    for (const AdmissibleScale& s : admissible_scales(most, 448, contract)) seconds.push_back(s);
  for (std::size_t first = 0; first < low.size(); first += size) {
    bool number = all_finite || contract.text("absmax") == "finite";
    for (std::size_t i = first; i < first + size; ++i)
      number = number && std::isfinite(low[i]) && std::isfinite(high[i]);
    const auto in_fp8 = [&](std::vector<Ends>& e, const AdmissibleScale& s2, bool none) {
      for (std::size_t i = 0; i < size && number; ++i) {
        bool first_of_all = none;
        // `each` gives code times stored scale, whose quotient by that scale is the code again.
        for (const float x : {low[first + i], high[first + i]})
          fp8.each(x, s2, [&](double y) {
            number = number && std::isfinite(y);
            e[i].admit(y / s2.stored, first_of_all);
            first_of_all = false;
          });
      }
    };
    // Of numbers that are not exact, what lies between the ends under any scale_2 may come under each.
    std::vector<Ends> together(size);
    if (!exact)
      for (const AdmissibleScale& s2 : seconds)
        if (s2.stored != 0) in_fp8(together, s2, &s2 == seconds.data());
    std::vector<Ends> admitted(size);
    std::vector<char> seen(size, 0);
    for (const AdmissibleScale& s2 : seconds) {
      if (s2.stored ==
          0) {  // which every number decodes as; the code of 0 times an infinite D / absmax is none
        for (std::size_t i = 0; i < size && number; ++i) {
          for (const float x : {low[first + i], high[first + i]})
            fp8.each(x, s2, [&](double y) { number = number && std::isfinite(y); });
          if (seen[i] == 0) truth.value[first + i] = 0;
          admitted[i].admit(0, seen[i] == 0), seen[i] = 1;
        }
        continue;
      }
      std::vector<Ends> e = together;
      if (exact) in_fp8(e, s2, true);
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
