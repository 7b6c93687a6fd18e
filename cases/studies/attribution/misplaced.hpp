// What the kernels of the plug-in of misplaced faults share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/assay_backend.h"

namespace misplaced {

constexpr std::int64_t kTile = 32;

struct Fault {
  std::string kind;
  std::int64_t n = 0, m = 0;
  bool is(std::string_view name) const { return kind == name; }
};

inline std::string_view attribute(const assay_call* call, std::string_view name) {
  for (std::int32_t i = 0; i < call->attribute_count; ++i)
    if (name == call->attributes[i].name) return call->attributes[i].value;
  return "";
}

inline const assay_tensor* find(const assay_tensor* tensors, std::int32_t count, std::string_view name) {
  for (std::int32_t i = 0; i < count; ++i)
    if (name == tensors[i].name) return &tensors[i];
  return nullptr;
}
inline const assay_tensor* input(const assay_call* call, std::string_view name) {
  return find(call->inputs, call->input_count, name);
}

// misplaced_rows.cpp: softmax, rmsnorm, quantize and dequantize. Whether the op is one of theirs; what they
// declare, nothing for a call that they do not take.
bool is_of_rows(const assay_call* call);
const char* contract_of_rows(const assay_call* call);
void run_rows(const assay_call* call, const Fault& fault);

}  // namespace misplaced
