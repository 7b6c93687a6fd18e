// The correct kernels that the bounds are tested on: one row per declared arithmetic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay {

struct TestKernel {
  std::string_view name;
  std::string_view q, k, v;  // formats
  AttentionArithmetic how;
};

inline AttentionArithmetic test_arithmetic(std::string_view qk, std::string_view p, int p_shift,
                                           std::string_view pv, std::string_view out, std::int64_t tile = 64,
                                           std::int64_t promote = 0) {
  AttentionArithmetic how;
  how.qk = qk, how.p = p, how.pv = pv, how.out = out;
  how.p_shift = p_shift, how.tile = tile, how.promote = promote;
  return how;
}

inline std::vector<TestKernel> test_kernels() {
  const auto with = [](AttentionArithmetic how, auto change) {
    change(how);
    return how;
  };
  const auto f16 = test_arithmetic("hopper_f16", "f16", 0, "hopper_f16", "f16");
  const auto fp8 = test_arithmetic("hopper_fp8", "e4m3fn", 8, "hopper_fp8", "bf16", 128);
  return {
      {"f32", "f32", "f32", "f32", test_arithmetic("f32", "f32", 0, "f32", "f32")},
      {"f32_f16kv_base2", "f16", "f16", "f16",
       with(test_arithmetic("f32", "f32", 0, "f32", "f16"), [](auto& h) { h.base2 = true; })},
      {"hopper_f16", "f16", "f16", "f16", f16},
      {"hopper_f16_promote", "f16", "f16", "f16", with(f16, [](auto& h) { h.promote = 64, h.chunk = 32; })},
      {"hopper_f16_scores16", "f16", "f16", "f16", with(f16, [](auto& h) { h.scores = "f16"; })},
      {"hopper_f16_cast_sum", "f16", "f16", "f16",
       with(f16, [](auto& h) { h.denominator_cast = true, h.base2 = true; })},
      {"hopper_f16_split", "f16", "f16", "f16", with(f16, [](auto& h) { h.split = 3, h.exp_ulp = 4; })},
      {"hopper_f16_sum16", "f16", "f16", "f16", with(f16, [](auto& h) { h.rowsum = "f16"; })},
      {"hopper_f16_f16out", "f16", "f16", "f16",
       test_arithmetic("hopper_f16", "f16", 0, "hopper_f16_f16out", "f16")},
      {"scalar_f16", "f16", "f16", "f16", test_arithmetic("f32", "f16", 0, "f16", "f16")},
      {"scalar_f16_promote", "f16", "f16", "f16", test_arithmetic("f32", "f16", 0, "f16", "f16", 64, 32)},
      {"v100_f16", "f16", "f16", "f16", test_arithmetic("v100_f16", "f16", 0, "v100_f16", "f16")},
      {"a100_f16", "f16", "f16", "f16", test_arithmetic("a100_f16", "f16", 0, "a100_f16", "f16", 32)},
      {"a100_bf16", "bf16", "bf16", "bf16", test_arithmetic("a100_bf16", "bf16", 0, "a100_bf16", "bf16")},
      {"hopper_bf16", "bf16", "bf16", "bf16",
       test_arithmetic("hopper_bf16", "bf16", 0, "hopper_bf16", "bf16")},
      {"cdna1_f16", "f16", "f16", "f16", test_arithmetic("cdna1_f16", "f16", 0, "cdna1_f16", "f16")},
      {"cdna2_f16", "f16", "f16", "f16", test_arithmetic("cdna2_f16", "f16", 0, "cdna2_f16", "f16")},
      {"cdna3_f16", "f16", "f16", "f16", test_arithmetic("cdna3_f16", "f16", 0, "cdna3_f16", "f16")},
      {"cdna3_fp8", "e4m3fnuz", "e4m3fnuz", "e4m3fnuz",
       test_arithmetic("cdna3_fp8", "e4m3fnuz", 7, "cdna3_fp8", "bf16")},
      {"hopper_fp8", "e4m3fn", "e4m3fn", "e4m3fn", fp8},
      {"hopper_fp8_two_level", "e4m3fn", "e4m3fn", "e4m3fn", with(fp8, [](auto& h) { h.promote = 128; })},
      {"hopper_fp8_promote32", "e4m3fn", "e4m3fn", "e4m3fn",
       with(fp8, [](auto& h) { h.promote = 32, h.chunk = 32; })},
      {"hopper_fp8_e5m2_split", "e4m3fn", "e5m2", "e5m2",
       with(fp8, [](auto& h) { h.promote = 128, h.split = 2, h.base2 = true; })},
      {"hopper_fp8_mma_sync", "e4m3fn", "e4m3fn", "e4m3fn",
       test_arithmetic("hopper_fp8_mma_sync", "e4m3fn", 8, "hopper_fp8_mma_sync", "f16")},
      {"ada_fp8", "e4m3fn", "e4m3fn", "e4m3fn", test_arithmetic("ada_fp8", "e4m3fn", 8, "ada_fp8", "f16")},
      {"blackwell_fp8", "e4m3fn", "e4m3fn", "e4m3fn",
       test_arithmetic("blackwell_fp8", "e4m3fn", 8, "blackwell_fp8", "bf16", 128)},
  };
}

}  // namespace assay
