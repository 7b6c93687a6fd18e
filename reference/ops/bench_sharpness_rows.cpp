#include <fmt/format.h>

#include "reference/ops/bench_sharpness.hpp"

namespace assay {
namespace {

// A FlashAttention-2 kernel: tiles of 64 keys one after the other, f32 sums, weights rounded to bf16 for the
// second product.
constexpr const char* kTiles =
    "qk=f32 qk_order=lanes:32 pv=f32 tile=64 promote=64 p=bf16 order=tiles rowsum_order=lanes:4 "
    "scaling=scores tiles=aligned";
// FP8 weights and codes multiplied by the matrix unit, partial sums of 128 keys promoted to f32.
constexpr const char* kUnit =
    "q=e4m3fn qk=hopper_fp8 chunk=128 tile=128 p=e4m3fn p_shift=8 pv=hopper_fp8 promote=128 order=tiles "
    "scaling=scores tiles=aligned "
    "qk_order=sequential pv_order=sequential rowsum_order=lanes:4";

void add_attention(std::vector<SharpnessRow>& rows) {
  for (const bool needle : {false, true})
    for (const int keys : {1024, 16384, 131072, 1048576}) {
      const auto shape = [&](const char* kv) {
        return fmt::format("heads=8 kv_heads=1 d=128 len={} kv={} dtype=bf16", keys, kv);
      };
      const auto add = [&](Declared declared, const char* name, const char* kv, const std::string& contract,
                           double goal) {
        rows.push_back({declared, name, "attention", shape(kv), contract, needle, needle ? 0 : goal});
      };
      add(Declared::none, "P in bf16", "bf16", "p=bf16", 0);
      add(Declared::tiles, "P in bf16", "bf16", kTiles, keys == 131072 ? 0.01 : 0);
      add(Declared::tiles, "FP8 KV, 16-bit products", "e4m3fn_head", std::string(kTiles) + " convert=bf16",
          keys == 16384 ? 0.02 : 0);
      add(Declared::unit, "FP8 by hopper_fp8", "e4m3fn_head", kUnit, 0);
    }
}

void add_products(std::vector<SharpnessRow>& rows) {
  for (const int k : {1024, 4096, 16384}) {
    const auto add = [&](Declared declared, const char* name, const char* formats, const char* contract,
                         double goal) {
      rows.push_back({declared, name, "matmul", fmt::format("m=4 n=64 k={} {}", k, formats), contract, false,
                      k == 4096 ? goal : 0});
    };
    add(Declared::none, "bf16", "a=bf16", "acc=f32", 0);
    add(Declared::tiles, "bf16", "a=bf16", "acc=f32 order=blocks:64", 0);
    add(Declared::none, "FP8", "a=e4m3fn_tok", "acc=f32", 0);
    add(Declared::unit, "FP8, promoted every 128", "a=e4m3fn_tok",
        "acc=hopper_fp8 promote=4 order=sequential", 0.01);
    add(Declared::unit, "NVFP4 by FP8", "a=bf16 b=nvfp4 path=e4m3fn",
        "acc=hopper_fp8 promote=4 order=sequential", 0.01);
  }
  for (const bool whole : {false, true}) {
    const std::string shape = whole ? "tokens=2 hidden=4096 inter=1536" : "tokens=2 hidden=512 inter=256";
    const auto add = [&](Declared declared, const char* name, const char* formats, const char* contract,
                         double goal) {
      rows.push_back(
          {declared, name, "moe", shape + " experts=4 topk=2 " + formats, contract, false, whole ? goal : 0});
    };
    add(Declared::none, "W4A8", "a=int8_tok w=int4_ch", "acc=i32", 0.002);
    add(Declared::none, "FP8", "a=e4m3fn_tok", "acc=f32", 0);
    add(Declared::tiles, "FP8, tiles of 128", "a=e4m3fn_tok", "acc=f32 order=blocks:128", 0);
    add(Declared::tiles, "FP8, 256 threads", "a=e4m3fn_tok", "acc=f32 order=lanes:256", 0.01);
    add(Declared::unit, "FP8", "a=e4m3fn_tok", "acc=hopper_fp8 promote=4 order=sequential", 0);
  }
}

void add_reductions(std::vector<SharpnessRow>& rows) {
  for (const char* op : {"softmax", "rmsnorm", "layernorm"})
    for (const int cols : {1024, 16384, 131072, 1048576})
      for (const bool lanes : {false, true})
        rows.push_back({lanes ? Declared::tiles : Declared::none, "f32", op,
                        fmt::format("rows=2 cols={}", cols), lanes ? "order=lanes:256" : ""});
}

}  // namespace

std::vector<SharpnessRow> sharpness_rows() {
  std::vector<SharpnessRow> rows;
  add_attention(rows);
  add_products(rows);
  add_reductions(rows);
  return rows;
}

}  // namespace assay
