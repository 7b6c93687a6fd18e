// One element of a matrix product: the exact number, and where a kernel of the declared arithmetic must be.
//
// Exact: v = sum_k a_k b_k of the decoded numbers, in f64 with n u64 sum|a b| as certificate.
//
// Kernel: around c s_a s_b, c = sum a'_k b'_k of the operands (operand.hpp), within the sum of
//   R = sum (|a'| + r_a)(|b'| + r_b) - sum |a'||b'|: operands that are not decided;
//   D = dot_bound(acc, ...) of arithmetic/dot_bound.hpp: accumulation. D = 0 when every product and partial
//     sum is a multiple of lsb(a) lsb(b) below 2^p, whatever the order (exactness by inspection), and for i32
//     below 2^31;
//   the epilogue, when there are scales: `epilogue_roundings` relative roundings in f32 (conversion of i32,
//     the two scales), and the relative error of a scale that the kernel computed itself.
// An i32 accumulator must not wrap, a floating one must not overflow: where they may, the error is +Inf.
#pragma once

#include <array>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/contract.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/operand.hpp"

namespace assay {

inline constexpr std::array kDotKeys = {
    ContractKey{"acc", ContractValue::accumulator, "f32", "",
                "how products are summed: a type or a matrix unit"},
    ContractKey{"order", ContractValue::order, "any", "", "of the additions of a floating acc"},
    ContractKey{"promote", ContractValue::number, "0", "",
                "matrix unit: blocks between promotions to f32; 0: never"},
    ContractKey{"dequant_roundings", ContractValue::number, "1", "",
                "f32 roundings from a stored code to an operand"},
    ContractKey{"epilogue_roundings", ContractValue::number, "3", "", "f32 roundings that apply the scales"},
};

struct DotResult {
  double exact = 0;
  double certificate = 0;   // of exact
  Enclosure kernel;         // before it is stored; need not contain `exact`
  double accumulation = 0;  // the part of its error that the accumulator makes, before the scales
};

class Dot {
 public:
  // Throws InputError bad_value when the matrix unit does not take the operands' formats.
  Dot(const Contract& contract, std::string_view a_element, std::string_view b_element, bool flush);
  DotResult operator()(const OperandRow& a, const OperandRow& b) const;
  // The accumulation's error alone: n terms, sum |a b| = abs_sum. +Inf when nothing is claimed.
  double accumulation_error(const OperandRow& a, const OperandRow& b, double abs_sum) const;

 private:
  Accumulator acc_;
  Order order_;
  bool flush_;
  std::int64_t promote_;
  double epilogue_roundings_;
  std::string a_element_, b_element_;
};

// sum a_i b_i and sum |a_i b_i| in f64, each within n u64 sum |a_i b_i|.
struct DotSums {
  double sum = 0;
  double abs_sum = 0;
};
DotSums dot_sums(const double* a, const double* b, std::int64_t n);

}  // namespace assay
