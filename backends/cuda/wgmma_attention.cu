// FP8 attention on Hopper's matrix unit: what it takes and declares. The kernel: wgmma_attention.cuh.
#include "backends/cuda/wgmma_attention.cuh"

#include "backends/cuda/mma_attention.hpp"

namespace assay_gpu {
namespace {

// Keys per partial sum, declared and (but for a defect on purpose) done.
constexpr std::int64_t kNever = 4194304;  // no cache is longer

struct Fp8Format {
  bool taken = false, scaled = false;
};
Fp8Format fp8_format(std::string_view name) {
  if (name == "e4m3fn") return {true, false};
  return {name == "e4m3fn_tensor" || name == "e4m3fn_head", true};
}

template <int kPromote>
void run_fp8(Run& run) {
  const Fp8Format k = fp8_format(run.call.text("k")), v = fp8_format(run.call.text("v"));
  Fp8Args args{};
  args.a = attention_args(run);
  args.keys = aligned_payload(run, args.a.keys.payload, args.a.d);
  args.values = aligned_payload(run, args.a.values.payload, args.a.dv);
  if (k.scaled) args.k_scale = args.a.keys.scale;
  if (v.scaled) args.v_scale = args.a.values.scale;
  args.row_blocks = (args.a.q * args.a.group + kFp8Rows - 1) / kFp8Rows;
  const std::int64_t blocks = static_cast<std::int64_t>(args.row_blocks) * args.a.kv_heads * args.a.batch;
  if (blocks > 0x7FFFFFFF) throw Unsupported("more than 2^31 blocks");
  const auto grid = static_cast<unsigned>(blocks);
  args.a.d == 64 ? attention_fp8_wgmma<64, kPromote><<<grid, kFp8Threads>>>(args)
                 : attention_fp8_wgmma<128, kPromote><<<grid, kFp8Threads>>>(args);
  run.launched("attention_fp8_wgmma");
}

std::string fp8_contract(std::int64_t promote) {
  return "q=e4m3fn p_shift=8 " +
         attention_contract("hopper_fp8", "e4m3fn", "hopper_fp8", kFp8Tile, promote, 1, 32);
}

}  // namespace

void attention_fp8_wgmma_check(const Call& call, const DeviceInfo& device) {
  attention_check(call);
  if (!fp8_format(call.text("k")).taken || !fp8_format(call.text("v")).taken) {
    throw Unsupported("fp8_wgmma takes K and V in e4m3fn, bare or with a scale per tensor or head");
  }
  const std::int64_t d = call.integer("d");
  if (d != call.integer("dv") || (d != 64 && d != 128))
    throw Unsupported("fp8_wgmma takes d = dv = 64 or 128");
  if (call.text("rotate") == "qkv")
    throw Unsupported("fp8_wgmma does not transform its output back: rotate=qkv");
  if (!rows_are_vectors(call.input("k")) || !rows_are_vectors(call.input("v"))) {
    throw Unsupported("fp8_wgmma loads 16 bytes at once: strides of K and V must be multiples of 16");
  }
  if (device.major != 9) throw Unsupported("wgmma is an instruction of compute capability 9.0 alone");
}

std::string_view attention_fp8_wgmma_name(const Call&) { return "attention_fp8_wgmma"; }

#define ASSAY_FP8(suffix, promote, declared)                                            \
  std::string attention_fp8_wgmma_##suffix##_contract(const Call&, const DeviceInfo&) { \
    return fp8_contract(declared);                                                      \
  }                                                                                     \
  void attention_fp8_wgmma_##suffix##_run(Run& run) { run_fp8<promote>(run); }
ASSAY_FP8(p1, 32, 32)
ASSAY_FP8(p4, 128, 128)
ASSAY_FP8(p64, 2048, 2048)
ASSAY_FP8(p0, 0, kNever)
ASSAY_FP8(p4_single_level, 0, 128)  // a defect on purpose: declares two levels and has one
#undef ASSAY_FP8

}  // namespace assay_gpu
