// Errors of f32 functions over all inputs, one slot a sign and binade.
#pragma once

#include <cstdint>

#include "cases/studies/silicon/device.hpp"

namespace assay::silicon {

// worst: the f32 bits of the error above the f32 bits of an input that has it, so that an integer maximum
// keeps both.
struct TableSlot {
  unsigned long long inputs;
  unsigned long long not_nearest;
  unsigned long long worst;
  unsigned long long worst_subnormal;
  unsigned long long relative;  // f32 bits
};

UlpRow unpack(const TableSlot& slot);
void launch_table(Function function, TableSlot* slots, void* stream);  // 512 slots, zeroed
void launch_evaluate(Function function, const std::uint32_t* x, std::uint32_t* y, int n, void* stream);

}  // namespace assay::silicon
