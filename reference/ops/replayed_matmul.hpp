// matmul under level=replay: the bits that the declared schedule makes of the operands, and the schedule's
// steps.
#pragma once

#include <span>
#include <string_view>

#include "reference/ops/op_io.hpp"
#include "reference/ops/operand.hpp"
#include "reference/replay/replay.hpp"

namespace assay {

// Operands of a product as its replay takes them.
struct ReplayRows {
  ReplayOperand operand;
  std::vector<float> scales;  // of the epilogue
  std::vector<bool> finite;   // rows of finite numbers; the others are zeros here
  std::vector<double> lsb;    // the largest power of two that divides every operand
  bool scaled = false;
};
// Throws InputError bad_contract where the contract does not decide a row of `name`.
ReplayRows replay_rows_of(const Operands& operands, const char* name);

// Of every element whose two rows are finite numbers and whose replayed result is one, truth.value becomes
// what the schedule stores and truth.limit 0; with ftz=yes only where no operand, partial sum or product with
// a scale can be a number that may be flushed. The others stay as they are. Throws InputError bad_contract: a
// schedule that is none, or does not fit the operands or the rest of the contract.
void replay_products(Truth& truth, std::string_view path, const Operands& left, const Operands& right,
                     const Contract& contract, const Store& store);

// The steps of the sums over k, by cutting a, or b where the format of a cannot be cut.
std::vector<ReplayStage> matmul_stages(const Attributes& attributes, const TensorSet& inputs,
                                       const Contract& contract);

}  // namespace assay
