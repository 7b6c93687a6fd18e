// What each op's file gives to the list in kernels.cpp: OP_check for all kernels of an op, and per kernel its
// device function's name, its contract and its run().
#pragma once

#include <string>
#include <string_view>

#include "backends/gpu/kernels.hpp"

namespace assay_gpu {

#define ASSAY_KERNEL(op, kind)                                                    \
  std::string_view op##_##kind##_name(const Call& call);                          \
  std::string op##_##kind##_contract(const Call& call, const DeviceInfo& device); \
  void op##_##kind##_run(Run& run)
#define ASSAY_CHECK(name) void name(const Call& call, const DeviceInfo& device)

ASSAY_CHECK(softmax_check);
ASSAY_KERNEL(softmax, block);
ASSAY_CHECK(logsumexp_check);
ASSAY_KERNEL(logsumexp, block);
ASSAY_CHECK(layernorm_check);
ASSAY_KERNEL(layernorm, two_pass);
ASSAY_KERNEL(layernorm, one_pass);
ASSAY_KERNEL(layernorm, welford);
ASSAY_CHECK(rmsnorm_check);
ASSAY_KERNEL(rmsnorm, block);
ASSAY_CHECK(wht_check);
ASSAY_CHECK(wht_warp_check);
bool wht_warp_chosen(const Call& call);
ASSAY_KERNEL(wht, warp);
ASSAY_KERNEL(wht, block);
ASSAY_CHECK(argmax_check);
ASSAY_KERNEL(argmax, block);

// `bits`: codes by bit operations; `toolkit`: by the vendor's own conversions, for the formats that they
// know.
ASSAY_CHECK(quantize_check);
ASSAY_CHECK(dequantize_check);
ASSAY_CHECK(requantize_check);
ASSAY_CHECK(kv_write_check);
ASSAY_KERNEL(quantize, bits);
ASSAY_KERNEL(dequantize, bits);
ASSAY_KERNEL(requantize, bits);
ASSAY_KERNEL(kv_write, bits);

#undef ASSAY_CHECK
#undef ASSAY_KERNEL

}  // namespace assay_gpu
