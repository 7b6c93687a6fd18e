// One element of a matrix product: the exact number, and where a kernel of the declared arithmetic must be.
//
// Exact: v = sum_k a_k b_k of the decoded numbers, in f64 with n u64 sum|a b| as certificate.
//
// Kernel: c s_a s_b, c = sum a'_k b'_k of the operands (operand.hpp), within the sum of
//   R = sum (|a'| + r_a)(|b'| + r_b) - sum |a'||b'|: operands that are not decided;
//   D, the accumulation:
//     0            when every product and partial sum is a multiple of lsb(a) lsb(b) below 2^p, whatever the
//                  order (exactness by inspection), and for i32 below 2^31
//     sequential   of a floating accumulator: the running bound on the partial sums themselves. With s_k the
//                  exact ones and E_k the error after k terms, one product rounding (none where p_a + p_b <=
//                  p bits hold every product) and one addition make
//                    E_k <= E_{k-1} + e_p + u (|s_k| + R + E_{k-1} + e_p),  e_p = u |p_k| + eta
//     else         dot_bound of arithmetic/dot_bound.hpp for the height of the declared order
//   the epilogue, when there are scales: `epilogue_roundings` relative roundings in f32 (conversion of i32,
//   the two scales), and the relative error of a scale that the kernel computed itself. The sum and the
//   scales (two of them of an int4_ch_tensor) are multiplied in any order: each product P of some of them
//   that underflows is off by min(eta, |P|), times the other factors; where one may overflow nothing is
//   claimed, of a sum of 0 neither, for 0 Inf is NaN.
// A matrix unit under order=sequential is not bounded but replayed (products.hpp): c is then known in every
// bit. An i32 accumulator must not wrap, a floating one must not overflow: where they may, the error is +Inf.
//
// With numbers, k = 4096 unit gaussians (sum|a b| = 2600, |c| = 43 in the middle) in bf16, acc=f32, as limit
// / |c|:
//   any          gamma_4095 sum|a b|                    0.63      1.5 %
//   sequential   u sum_k |s_k|                          0.0085    0.02 %
//   lanes:32     gamma_132 sum|a b|                     0.020     0.05 %
#pragma once

#include <array>
#include <initializer_list>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/contract.hpp"
#include "reference/arithmetic/dot_bound.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/operand.hpp"

namespace assay {

inline constexpr std::array kDotKeys = {
    KeySpec{"acc", KeyKind::accumulator, "f32", "", "how products are summed: a type or a matrix unit"},
    KeySpec{"order", KeyKind::order, "any", "",
            "of the additions; with a matrix unit sequential says: blocks in ascending k, padded at the end"},
    KeySpec{"promote", KeyKind::real, "0", "", "matrix unit: blocks between promotions to f32; 0: never",
            "none"},
    KeySpec{"dequant_roundings", KeyKind::real, "1", kMostRoundings,
            "f32 roundings from a stored code to an operand: none, one, or so many at most; an exact "
            "step is none"},
    KeySpec{"epilogue_roundings", KeyKind::real, "3", kMostRoundings,
            "f32 roundings that apply the scales (q8: to a block), in any order, at most; the conversion "
            "of an integer sum "
            "is one"},
    KeySpec{"block", KeyKind::integer, "1", "",
            "matrix unit, order not told: products of every block but the last of a partial sum, at least",
            "2147483647"},
    KeySpec{"split", KeyKind::real, "0", "",
            "matrix unit, order not told: partial sums that are added, each rounded (integers exact), at "
            "most; 0: any "
            "number",
            "1"},
};

struct DotResult {
  double exact = 0;
  double certificate = 0;  // of exact
  Enclosure kernel;        // before it is stored; need not contain `exact`
};

class Dot {
 public:
  // product_bits: of the longest product of two operands, where their elements do not tell it (scales of
  // blocks multiply them). Throws InputError bad_value when the matrix unit does not take the operands'
  // formats.
  Dot(const Contract& contract, std::string_view a_element, std::string_view b_element, bool flush,
      int product_bits = 0);
  // replayed: where the accumulator's result is known to be, when a replay knows it.
  DotResult operator()(const OperandRow& a, const OperandRow& b, const Enclosure* replayed = nullptr) const;
  // The unit whose bits follow from the contract alone; nullptr when the order of its blocks is not declared,
  // or its model is an assumption.
  const MatrixUnit* replayable() const;
  // A matrix unit sums, in an order that is not told: `block` and `split` say something.
  bool is_dealt() const;
  std::int64_t promote() const { return promote_; }
  bool flush() const { return flush_; }
  const std::string& a_element() const { return a_element_; }
  const std::string& b_element() const { return b_element_; }

 private:
  // The accumulation's error alone: n terms, sum |a b| = abs_sum. +Inf when nothing is claimed.
  double accumulation_error(const OperandRow& a, const OperandRow& b, double abs_sum, double undecided) const;
  double sequential_error(const OperandRow& a, const OperandRow& b, double abs_sum, double undecided,
                          double flushed) const;
  // What flushing may take away, under ftz=yes.
  double flushed(const OperandRow& a, const OperandRow& b) const;
  Enclosure epilogue(Enclosure sum, const OperandRow& a, const OperandRow& b) const;

  Accumulator acc_;
  Order order_;
  bool flush_;
  bool exact_products_;  // of a floating acc: no product of two elements is longer than its significand
  std::int64_t promote_;
  Blocking blocking_;
  double epilogue_roundings_;
  std::string a_element_, b_element_;
};

// Throws InputError bad_contract for a `block` or `split` that says something of none of these products.
void refuse_idle_blocking(const Contract& contract, std::initializer_list<const Dot*> products);

// sum a_i b_i and sum |a_i b_i| in f64, each within n u64 sum |a_i b_i|.
struct DotSums {
  double sum = 0;
  double abs_sum = 0;
};
DotSums dot_sums(const double* a, const double* b, std::int64_t n);

}  // namespace assay
