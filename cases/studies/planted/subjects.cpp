// Ops and formats at the sizes of engines, of few heads and rows, with the contract that is usual.
#include <fmt/format.h>

#include "cases/studies/planted/measure.hpp"

namespace assay::planted {
namespace {

// PyTorch's flash attention on a matrix unit, the number of its splits unknown.
std::string flash(const std::string& type) {
  return fmt::format("qk=hopper_{0} p={0} pv=hopper_{0} tile=64 exp_ulp=2 split=128 merge=once", type);
}

}  // namespace

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  const auto add = [&](const std::string& line, const std::string& contract, const std::string& path) {
    all.push_back({line, contract, path, {}});
  };
  const std::string decode = "attention heads=2 kv_heads=1 d=128 len=8192";
  const std::string prefill = "attention heads=2 kv_heads=1 d=128 q=5 mask=causal len=8192";
  for (const char* type : {"bf16", "f16"})
    for (const std::string& shape : {decode, prefill}) {
      add(fmt::format("{} kv={} dtype={}", shape, type, type), flash(type), "flash, split unknown");
      add(fmt::format("{} kv={} dtype={}", shape, type, type), "", "f32 sums");
    }
  add(decode + " kv=f32 dtype=f32", "", "f32 sums");
  for (const char* kv : {"e4m3fn_tok", "e4m3fn_head", "e5m2_tensor", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
                         "iq4_nl", "tq3_0_c2", "mxfp4", "mxfp8", "nvfp4", "int8_tok"})
    add(fmt::format("{} kv={} dtype=bf16", decode, kv), "", "f32 sums");
  for (const char* kv : {"q4_K", "q6_K"})
    add(fmt::format("attention heads=2 kv_heads=1 d=256 len=8192 kv={} dtype=bf16", kv), "", "f32 sums");
  for (const char* kv : {"e4m3fn_tok", "q8_0"})
    add(fmt::format("{} kv={} dtype=bf16", decode, kv), "convert=bf16 " + flash("bf16"), "decoded for flash");

  const std::string product = "matmul m=2 n=64 k=4096";
  for (const char* type : {"bf16", "f16", "f32"})
    add(fmt::format("{0} a={1} b={1} dtype={1}", product, type), "", "f32 sums");
  add(product + " a=bf16 b=bf16 dtype=bf16", "acc=hopper_bf16", "matrix unit");
  add(product + " a=f32 b=f32 path=tf32 dtype=f32", "", "tf32");
  for (const char* b : {"mxfp4", "mxfp8", "nvfp4", "int4_g32", "int8_ch", "q8_0", "q4_0"})
    add(fmt::format("{} a=bf16 b={} dtype=bf16", product, b), "", "decoded to bf16");
  for (const char* b :
       {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs"})
    add(fmt::format("{} a=f32 b={} path=f32 dtype=f32", product, b), "", "decoded to f32");
  add(product + " a=f32 b=q8_0 path=q8 dtype=f32", "", "q8");
  add(product + " a=f32 b=q4_0 path=q8_1 dtype=f32", "", "q8_1");
  all.back().unseen =
      "the offset of q4_0: 8 times a block's sum is added and taken away, rounded to f16 once";
  add(product + " a=f32 b=q4_K path=q8_1 dtype=f32", "", "q8_1");
  add(product + " a=f32 b=bf16 path=e4m3fn dtype=bf16", "", "e4m3fn");
  for (const char* codes : {"int8", "e4m3fn"})
    for (const char* type : {"f32", "bf16"})
      add(fmt::format("{0} a={1}_tok b={1}_tok dtype={2}", product, codes, type),
          codes == std::string("int8") ? "acc=i32" : "", "codes");
  add(product + " a=e4m3fn_tok b=e4m3fn_tok dtype=bf16", "acc=hopper_fp8", "codes, 14 bits declared");
  all.back().unseen = "a sum of 14 bits of any 4096 terms may lose all of them";

  const std::string experts = "moe tokens=2 hidden=4096 inter=32 experts=2 topk=2";
  for (const char* type : {"bf16", "f16", "f32"})
    add(fmt::format("{0} a={1} w={1} dtype={1}", experts, type), "", "f32 sums");
  for (const char* w : {"mxfp4", "int4_g32", "int8_ch", "nvfp4"})
    add(fmt::format("{} a=bf16 w={} dtype=bf16", experts, w), "", "decoded to bf16");

  for (const char* type : {"f32", "bf16", "f16"}) {
    for (const char* op : {"softmax", "logsumexp", "rmsnorm", "layernorm"})
      add(fmt::format("{} rows=32 cols=4096 dtype={}", op, type), "", "f32 sums");
    add(fmt::format("wht rows=32 cols=4096 points=128 dtype={}", type), "", "f32 sums");
  }
  for (const char* to : {"bf16", "e4m3fn", "e4m3fn_tok", "e5m2_tok", "int8_tok", "int4_g32", "q8_0", "q4_0",
                         "q4_1", "q5_0", "q5_1", "iq4_nl", "q8_1", "mxfp4", "mxfp8", "nvfp4"})
    add(fmt::format("quantize rows=2 cols=4096 to={}", to), "", "the format's rule");
  for (const char* from : {"e4m3fn_tok", "int8_tok", "q8_0", "q4_0", "q4_K", "mxfp4", "nvfp4"})
    for (const char* type : {"f32", "bf16"})
      add(fmt::format("dequantize rows=2 cols=4096 from={} dtype={}", from, type), "", "one rounding");
  return all;
}

}  // namespace assay::planted
