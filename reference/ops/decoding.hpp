// What a kernel holds that decodes stored numbers step by step, in the arithmetic that it declares.
//
// A number is a product of factors, w = c s_1 s_2, s_2 perhaps the reciprocal of what is stored, less a
// product m s_m where the format has minima (formats/factors.hpp). The kernel makes k roundings in a type
// with unit u and smallest normal number N from the factors to the result; in which order it multiplies is
// left open. Then, with A = |c s_1 s_2|, B = |m s_m|,
//
//   k <= 1   nothing is rounded before the last step: w itself
//   k > 1    |error| <= gamma_k |w|; where a minimum is taken away from products that are no numbers of the
//            type, which are
//                     rounded before they cancel, and the difference last: E + u (|w| + E), E = gamma_{k-1}
//                     (A + B), if that is more
//                     + (k - 1) t_P |R|            for a product P of some factors, or a factor brought into
//                                                  the type, that is below N: it is off by t_P = min(half a
//                                                  subnormal step, |P|), and multiplied by the other factors,
//                                                  R; the worst such P, of A and of B
//                     + half a subnormal step      where w itself is below N
//            no claim where a P may reach the overflow threshold: a code of 0 makes NaN of it
//   ftz      0 in place of the number where a stored factor is below N (in the type that is computed in: an
//            f16 scale is a normal f32), where a P is or where w is; no claim where a divisor is
//   tq3_0    a number is a sum of 32 terms c_j d / sqrt(32), whose magnitudes add up to at most sqrt(32)
//            times the block's norm
//            |w|_2 (the rotation is orthonormal): gamma_k |w|_2, and 92 t of products that underflow. Levels
//            are 0.214 < |c_j| < 1.862, the factor is one number, or 1 / sqrt(2) at each of five stages. Each
//            of these is the most of its way:
//              (d / sqrt(32)) c_j   the factor is off by t, and sum |c_j| < 59.6 times that; each product by
//                                   t, 32 of them: 91.6 t
//              (c_j / sqrt(32)) d   32 t
//              (c_j d) / sqrt(32)   32 t / sqrt(32), and 32 t; behind the sum, t
//              five stages          those of c_j d, and of 2^(5 - s) numbers behind stage s, (1 / sqrt(2))^(5
//                                   - s) each: 16.9 t
//            Nothing where |w|_2 >= 280 N, for then 0.214 d / sqrt(32) >= N: |w|_2 = d |c|_2 <= 10.54 d. Sums
//            are exact below N, but under ftz, where each of the 30 in front of the last may lose N. No claim
//            where 6 |w|_2 >= sqrt(32) |w|_2 overflows; and d is a normal number where |w|_2 >= 11 N
//
// With numbers: nvfp4 in f32, k = 2, c = 6, s_1 = 2^-9, s_2 = 1 / 1.5 2^127: P = s_1 s_2 = 2^-136.6, off by
// 2^-150, makes 6 2^-150 of w = 2^-134, where gamma_2 w is 2^-157.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "reference/formats/format.hpp"
#include "reference/ops/enclosure.hpp"

namespace assay {

class Decoding {
 public:
  // mid: f64 or a floating format, as machine() takes it.
  Decoding(const Encoded& tensor, std::string_view mid, double roundings, bool flush);
  // Elements [first, first + exact.size()), whose decoded numbers are `exact`: where the kernel's numbers are
  // before a last rounding (k <= 1) or after it. Error +Inf where nothing is known. What is not finite is
  // left as it is, with error 0, or +Inf where an infinity meets a factor that may become 0 on its way: NaN.
  std::vector<Enclosure> operator()(std::int64_t first, std::span<const double> exact) const;

 private:
  const Encoded& tensor_;
  const Format& format_;
  Machine mid_;
  const ScalarFormat* type_;
  double normal_, roundings_;
  bool flush_;
};

}  // namespace assay
