// Which stored numbers a quantiser of the declared arithmetic may leave behind: what quantize, requantize and
// kv_write judge by. Outputs are judged as decoded numbers, code times the scale that the kernel stored; a
// stored scale that is wrong in its last bit therefore moves every non-zero element of its group, and needs
// no check of its own.
//
// Scaled formats. D: 448, 127, 7 ...; absmax a is exact; a group of zeros may store any scale; u = 2^-24.
//   scale=divide      e = fl32(a / D)
//   scale=reciprocal  e = fl32(a fl32(1 / D))
//   scale=inverse     e = fl32(1 / fl32(D / a))
//   scale=any         one of these
// moved by up to `scale_ulp` units in its last place (a GPU's approximate division: 2), which are two
// neighbours each below a power of two. The plane holds s = e, or e rounded to nearest even in 16 bits
// (scale_format), and x meets d = s or e (code_scale=stored, exact, any). The quotient is
//   code=divide       fl32(x / d)
//   code=reciprocal   fl32(x fl32(1 / d))
//   code=direct       fl32(x fl32(D / a)): the multiplier never was a scale
//   code=any          somewhere in [q (1 - g), q (1 + g)], q = x / d, g = gamma_{4 + 2 scale_ulp}. It holds
//                     all three: divide and reciprocal are within 2 u of q; D / a and d differ by at most 2 u
//                     + 2 u scale_ulp (two roundings in e, an ulp being 2 u), and direct rounds twice.
// and is rounded to 16 bits before it becomes a code where quotient= says so. All of that is computed here as
// the kernel computes it, so each set is exact; for code=any, rounding is monotone and the ends decide. With
// value = the first admissible number,
//   limit = max over admissible (s, d, quotient) of |code s - value|
// is 0 for a decided code under a decided scale, one step for a code on the boundary, one unit in the last
// place for a scale in doubt; any other code is outside, because codes are a step apart. Integer codes end at
// -128 or at -127 (-8 or -7 in int4), as int_range says; absmax / D never asks for more, a locked or fixed
// scale does.
//
// round=stochastic: either neighbour of the quotient is the code. subnormals=zero: a code below the smallest
// normal number is 0, and so may be one that was rounded up to it.
//
// Scalar formats: one rounding, limit 0 (int8: and int_range), after one to `quotient` where that is
// narrower.
//
// Block formats: the rule of formats/blocks/<name>.cpp, for OCP MX that of mx_scale. Its scale is monotone in
// the block's extreme elements and its codes are monotone in the quotient. A kernel's f32 scale d is the
// rounding of a quotient t of an extreme that is within u of ours (a rounded 1 / D, or D / absmax, is one
// rounding more), so the next number at most, and `scale_ulp` numbers on. With m in [1, 2) the significand of
// d, an ulp of d is 2 u / m of it and the rounding of 1 / d at most u m / 2 of that: both together, in the
// kernel and in ours, (2 / m + m) u <= 3 u. The product with x is rounded last, as ours is, and monotone; in
// a fused code = x / d + 1/2 it is not, u more. So a kernel's code lies between those of x (1 +- 4 u), and 2
// u more for each of scale_ulp; a move is u longer, for it is rounded to f32. Every element in turn is moved
// so far either way (a whole block's extreme and each quotient alike); where x less the least element m is
// divided (q4_1, q5_1), by that of x - m. What changes in an element of value v then, with r the part that
// its block's scale changes by:
//   one f16 scale and nothing else (q8_0, q4_0, q5_0; elements that are exact)   own (1 + r) + |v| r
//   others                                                                      own (1 + r) + first
// own: its own move; first: the largest that another's move makes (the scale's; the two largest where a
// minimum is stored besides). r is what is seen in the block's farthest element; own r is a code's step under
// the other scale. All elements, or all of one sign, are moved together as well, for extremes that several
// share; a block that this changes has other codes on the boundary, and each of its elements is moved once
// more. tq3_0 rotates the block first: there an element is moved by 2^-20 of the block's absmax, which moves
// every rotated coordinate, and all changes add up. nvfp4, whose global scale belongs to every block, has a
// derivation of its own: admissible_nvfp4.cpp; so have iq4_nl, whose scale is a quotient of sums over all
// codes (admissible_least_squares.cpp), and formats whose scales are searched for (admissible_searched.cpp).
// mxfp4_ggml's exponent is that of ggml's code, which floors a logarithm rounded to f32, or the exact one:
// both are admitted. Ties are decided (limit 0) where every way finds the same scale,
// a power of two, and the very quotient: an absmax of 127 gives q8_0 the scale 127 / 127 = fl(127 fl(1 /
// 127)) = 1 / fl(127 / 127) = 1, so that 2.5 / 1 = 2.5 fl(1 / 1) = fl(2.5 127) / 127 = 2.5, whose code is 3
// by its rule. Half a code has 9 bits and D 7, so the product is exact; so is what a fused rule adds. In OCP
// MX every scale is a power of two, and is known where a moved absmax keeps it. ties=any: either neighbour,
// as everywhere else. ties=even and ties=away are decided where the rule's are, and either elsewhere.
//
// Numbers that are not exact (requantize, decoded with several roundings, admissible_between.cpp): every
// number between the ends.
//
// Not finite. A NaN must come back as NaN where the format's elements have one (nan=propagate). The other
// members of its group, and of one with an Inf, depend on what becomes of absmax:
//   absmax=finite  it is taken over the finite elements, as the formats define it: all of the group is
//                  claimed, Inf as `overflow` says; NaN in integers is between the ends of the codes. So in
//                  blocks: the finite elements are those of the block in which 0 (of a minimum: a finite
//                  element) stands for the others, of which nothing is claimed; mxfp8, whose elements have a
//                  NaN, and an Inf that saturates, are as those formats say. tq3_0 rotates what is not finite
//                  into every element: nothing is claimed.
//   absmax=any     undefined: a maximum may ignore a NaN, be restarted by it (maxps returns its second
//                  operand), be clamped to the largest f32, or be NaN or Inf, and so may the scale be, under
//                  which every element is read as NaN. Nothing is claimed of the group, but that a NaN is NaN
//                  where elements have one. The groups beside it are claimed in full (nvfp4: nothing of the
//                  tensor).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op.hpp"

namespace assay {

inline constexpr std::array kQuantiseKeys = {
    KeySpec{"scale", KeyKind::word, "divide", "divide|reciprocal|inverse|any",
            "absmax / D, absmax times a rounded 1 / D, or 1 / a rounded D / absmax"},
    KeySpec{"divisor", KeyKind::word, "largest", "largest|half_more",
            "D of int8 and int4, in a rule too: the largest code, 127 or 7, or 127.5 or 7.5"},
    KeySpec{
        "scale_ulp", KeyKind::real, "0", "0..8",
        "units in the last place that the scale may be off its rounded formula; 0 to 2 in a block format"},
    KeySpec{"scale_format", KeyKind::word, "f32", "f32|f16|bf16",
            "the stored f32 scale is rounded to this; block formats have their own"},
    KeySpec{"code", KeyKind::word, "any", "divide|reciprocal|direct|any",
            "x / scale, times a rounded 1 / scale, or times a rounded D / absmax"},
    KeySpec{"code_scale", KeyKind::word, "any", "stored|exact|any",
            "codes from the scale as stored, or as it was before scale_format"},
    KeySpec{"quotient", KeyKind::word, "f32", "f32|f16|bf16",
            "rounded to this before it becomes a code (of a scalar format x itself is); not in a block "
            "format, whose rule "
            "has f32"},
    KeySpec{"round", KeyKind::word, "rule", "rule|nearest_even|nearest_away|toward_zero|stochastic",
            "to a code: to nearest, a half to the even one, or as the format's own rule has it; stochastic: "
            "to either neighbour"},
    KeySpec{"ties", KeyKind::word, "rule", "rule|any|even|away",
            "half-way between two codes of a block format whose rule has no search: the code that its rule "
            "says, or either; of integer codes the even one, or that away from zero (the same as round=)"},
    KeySpec{
        "subnormals", KeyKind::word, "keep", "keep|zero",
        "codes below the smallest normal number of a floating format: kept, or 0; in OCP MX and nvfp4 kept"},
    KeySpec{"overflow", KeyKind::word, "saturate", "saturate|ieee", "beyond the largest code"},
    KeySpec{"nan", KeyKind::word, "propagate", "propagate|zero", "what a NaN becomes"},
    KeySpec{"int_range", KeyKind::word, "any", "full|symmetric|any",
            "the least integer code: -128 (-8), or -127 (-7)"},
    KeySpec{"mx_scale", KeyKind::word, "floor", "floor|ceil|even|rceil",
            "how an OCP MX block rounds its scale"},
    KeySpec{"absmax", KeyKind::word, "any", "finite|any",
            "of a group with a NaN or Inf: that of its finite elements, or undefined"},
};

EncodePolicy quantise_policy(const Contract& contract);

// values: what the kernel reads, f32. Dynamic scales by the format's rule. Fills value and limit.
void admit_quantised(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                     const Contract& contract);

// One way to scale a group.
struct AdmissibleScale {
  float stored;      // what the plane holds
  float divisor;     // what x is divided by, or its reciprocal multiplied with
  float multiplier;  // fl32(D / absmax)
};
inline constexpr AdmissibleScale kUnitScale{1, 1, 1};
// The scales of a group with this absmax; {kUnitScale} when it is 0, for then every code is 0.
std::vector<AdmissibleScale> admissible_scales(float absmax, double divisor, const Contract& contract);
// D as the contract has it (divisor=half_more).
double declared_divisor(double divisor, const Contract& contract);
// admit_quantised of a scaled format.
void admit_scaled(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                  const Contract& contract);
// int4_g32_bf16 and int4_g32_packed are int4_g32 with scale_format=bf16.
// admit_quantised of int4_ch_tensor and int4_g32_tensor: a scaled format of the scaled format e4m3fn_tensor.
// Every scale_2 = s2, every e under it, every scale = s1 of the group's e, and every code of e / s1 that the
// contract admits, each as above; a kernel's number is one of code s1 s2, and both limit and value follow as
// above. What an e in doubt makes of the group's absmax is tried: every number of FP8 from the largest |e|
// that is certain on. A group with a number that is not finite on the way is not claimed; under absmax=any,
// nor is a tensor with one among its elements. Values from low to high, the same span where they are exact.
void admit_two_scales(Truth& truth, const Format& to, const Shape& shape, std::span<const float> low,
                      std::span<const float> high, const Contract& contract);
// admit_quantised of nvfp4, in either order of its scales; admissible_nvfp4.cpp derives it. Values within
// `relative` of these.
void admit_nvfp4(Truth& truth, std::span<const float> values, const Contract& contract, double relative = 0);
// admit_quantised of the other block formats: values within radius[i] of these; empty where they are exact.
void admit_block(Truth& truth, const Format& to, std::span<const float> values,
                 std::span<const double> radius, const Contract& contract);
// Limits of iq4_nl around `stored`, what our own quantiser made of the values; admissible_least_squares.cpp
// derives it. Values within radius[i] of these; empty where they are exact.
void limit_least_squares(std::span<const float> values, std::span<const double> radius, Rounding rounding,
                         double scale_ulp, std::span<const double> stored, std::span<double> limit);
// admit_quantised of a format whose scales are searched for; admissible_searched.cpp derives it. No key of
// the contract matters.
void admit_searched(Truth& truth, const Format& to, std::span<const float> values);
// Scales that the caller knows: scales[s] is every admissible scale of group s (plane ".scale", row-major).
void admit_quantised_with_scales(Truth& truth, const Format& to, const Shape& shape,
                                 std::span<const float> values,
                                 const std::vector<std::vector<AdmissibleScale>>& scales,
                                 const Contract& contract);
// admit_quantised of numbers that are somewhere in [low, high]; ones: every scale is 1.
void admit_quantised_between(Truth& truth, const Format& to, const Shape& shape,
                             std::span<const Enclosure> values, bool ones, const Contract& contract);
// absmax of each group over its finite elements.
std::vector<float> group_absmax(const Format& to, const Shape& shape, std::span<const float> values);
// Of each group, whether it has a NaN or an infinity.
std::vector<char> groups_not_finite(const Format& to, const Shape& shape, std::span<const float> values);

// How a quotient becomes a code, and that a number.
class Coder {
 public:
  Coder(const Format& to, const Contract& contract);
  // Every number that x may be stored as under this scale; NaN where a kernel's arithmetic gives none.
  void each(float x, const AdmissibleScale& s, const std::function<void(double)>& visit) const;
  // The same of a quotient in f64.
  void codes(double quotient, bool is_nan, const std::function<void(double)>& visit) const;
  const ScalarFormat& element() const { return elements_.front(); }
  const EncodePolicy& policy() const { return policy_; }
  double largest() const { return std::max(element().max_finite, -element().integer_min); }

 private:
  std::vector<ScalarFormat> elements_;
  EncodePolicy policy_;
  std::string_view how_, quotient_, code_scale_;
  bool zeroes_subnormals_;
  double error_;
};

// The scalar formats whose codes the contract admits: one, or two that end at other integers.
std::vector<ScalarFormat> admissible_codes(const ScalarFormat& element, const Contract& contract);

}  // namespace assay
