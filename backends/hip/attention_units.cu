// FP8 and f16 attention on AMD's matrix units: the kernels by name, and the host's side of them.
#include <array>
#include <string>

#include "backends/gpu/formats.hpp"
#include "backends/hip/unit_attention.cuh"
#include "backends/hip/unit_kernels.hpp"

namespace assay_gpu {

#define ASSAY_UNIT_ATTENTION(NAME, WAVE)                                                              \
  __global__ void __launch_bounds__(WAVE) NAME##_d64(const GPU_GRID_CONSTANT UnitAttentionArgs args); \
  __global__ void __launch_bounds__(WAVE) NAME##_d128(const GPU_GRID_CONSTANT UnitAttentionArgs args);
#define ASSAY_UNIT_ATTENTION_STUBS(NAME)                                   \
  __global__ void NAME##_d64(const GPU_GRID_CONSTANT UnitAttentionArgs) {} \
  __global__ void NAME##_d128(const GPU_GRID_CONSTANT UnitAttentionArgs) {}
#define ASSAY_UNIT_ATTENTION_BODIES(NAME, ...)                                  \
  __global__ void NAME##_d64(const GPU_GRID_CONSTANT UnitAttentionArgs args) {  \
    attend_on_unit<__VA_ARGS__, 64>(args);                                      \
  }                                                                             \
  __global__ void NAME##_d128(const GPU_GRID_CONSTANT UnitAttentionArgs args) { \
    attend_on_unit<__VA_ARGS__, 128>(args);                                     \
  }

ASSAY_UNIT_ATTENTION(attention_wmma_fp8, 32)
ASSAY_UNIT_ATTENTION(attention_wmma_f16, 32)
ASSAY_UNIT_ATTENTION(attention_mfma_fp8, 64)
ASSAY_UNIT_ATTENTION(attention_decoded_fp8, 32)

using DecodedWmmaFp8 = DecodedUnit<LayoutWmma8, Element::e4m3fn>;

#if ASSAY_GPU_HIP && !ASSAY_DEVICE_PASS
ASSAY_UNIT_ATTENTION_STUBS(attention_wmma_fp8)
ASSAY_UNIT_ATTENTION_STUBS(attention_wmma_f16)
ASSAY_UNIT_ATTENTION_STUBS(attention_mfma_fp8)
ASSAY_UNIT_ATTENTION_STUBS(attention_decoded_fp8)
#else
#if !ASSAY_EXHIBIT  // of one kernel alone
ASSAY_UNIT_ATTENTION_BODIES(attention_decoded_fp8, DecodedWmmaFp8, OperandE4m3fn)
#endif
#if ASSAY_UNIT_WMMA_FP8
ASSAY_UNIT_ATTENTION_BODIES(attention_wmma_fp8, taken<WmmaFp8, DecodedWmmaFp8>, OperandE4m3fn)
#elif ASSAY_FALLBACK_WITHOUT_UNIT
ASSAY_UNIT_ATTENTION_BODIES(attention_wmma_fp8, DecodedWmmaFp8, OperandE4m3fn)
#endif
#if ASSAY_UNIT_WMMA_F16
ASSAY_UNIT_ATTENTION_BODIES(attention_wmma_f16, WmmaF16, OperandF16)
#endif
#if ASSAY_UNIT_MFMA_FP8
ASSAY_UNIT_ATTENTION_BODIES(attention_mfma_fp8, MfmaFp8, OperandE4m3fnuz)
#endif
#endif

namespace {

// A kernel of this file, seen from the host.
struct UnitKernel {
  std::string_view variant, name;
  std::string_view element;  // of K, V, q and the weights
  std::string_view unit;     // in the contract
  int p_shift, wave;
  bool (*has)(const DeviceInfo& device);
  void (*d64)(UnitAttentionArgs);
  void (*d128)(UnitAttentionArgs);
};

bool always(const DeviceInfo&) { return true; }

// RDNA3's WMMA has no public bit model: f32 in any order is what is claimed of it.
#if ASSAY_GPU_HIP
constexpr UnitKernel kWmmaFp8{"wmma_fp8",
                              "attention_wmma_fp8",
                              "e4m3fn",
                              "rdna4_fp8",
                              8,
                              32,
                              has_wmma_fp8,
                              attention_wmma_fp8_d64,
                              attention_wmma_fp8_d128};
constexpr UnitKernel kMfmaFp8{"mfma_fp8",
                              "attention_mfma_fp8",
                              "e4m3fnuz",
                              "cdna3_fp8",
                              7,
                              64,
                              has_mfma_fp8,
                              attention_mfma_fp8_d64,
                              attention_mfma_fp8_d128};
constexpr UnitKernel kWmmaF16{"wmma_f16",
                              "attention_wmma_f16",
                              "f16",
                              "f32",
                              0,
                              32,
                              has_wmma_f16,
                              attention_wmma_f16_d64,
                              attention_wmma_f16_d128};
#endif
constexpr UnitKernel kDecodedFp8{"decoded_fp8",
                                 "attention_decoded_fp8",
                                 "e4m3fn",
                                 "f32",
                                 8,
                                 32,
                                 always,
                                 attention_decoded_fp8_d64,
                                 attention_decoded_fp8_d128};

// One scale at most for a head of K or V.
bool takes_format(const UnitKernel& kernel, std::string_view format) {
  if (!format.starts_with(kernel.element)) return false;
  const std::string_view scaling = format.substr(kernel.element.size());
  return scaling.empty() || (kernel.element != "f16" && (scaling == "_tensor" || scaling == "_head"));
}
bool takes_shape(const Call& call) {
  const std::int64_t d = call.integer("d");
  return d == call.integer("dv") && (d == 64 || d == 128);
}

void check(const UnitKernel& kernel, const Call& call, const DeviceInfo& device) {
  attention_check(call);
  const std::string variant(kernel.variant);
  if (!kernel.has(device)) throw Unsupported(variant + ": " + device.name + " has no such matrix unit");
  if (!takes_shape(call)) throw Unsupported(variant + " takes d = dv = 64 or 128");
  for (const char* side : {"k", "v"}) {
    if (!takes_format(kernel, call.text(side)))
      throw Unsupported(variant + " takes K and V in " + std::string(kernel.element) +
                        " with one scale per tensor or head");
    if (!rows_are_vectors(call.input(side)))
      throw Unsupported(variant + " loads 16 bytes at once: strides of K and V must be multiples of 16");
  }
  if (call.integer("batch") > 65535) throw Unsupported("more than 65535 sequences");
  if (call.integer("kv_heads") *
          ((call.integer("q") * call.integer("heads") / call.integer("kv_heads") + 15) / 16) >
      65535)
    throw Unsupported(variant + ": more than 65535 blocks of query rows");
}

std::int64_t part_keys(const Call& call, const DeviceInfo& device) {
  const std::int64_t group = call.integer("heads") / call.integer("kv_heads");
  const std::int64_t blocks = call.integer("batch") * call.integer("kv_heads") *
                              ((call.integer("q") * group + kUnitRows - 1) / kUnitRows);
  return split_part_keys(call.integer("len"), kUnitTile, blocks,
                         8 * static_cast<std::int64_t>(device.multiprocessors));
}

std::string contract(const UnitKernel& kernel, const Call& call, const DeviceInfo& device) {
  const std::int64_t keys = part_keys(call, device), parts = (call.integer("len") + keys - 1) / keys;
  std::string text =
      attention_contract(kernel.unit, kernel.element, kernel.unit, kUnitTile, kUnitTile, parts, 16);
  if (kernel.element != call.text("dtype")) text += " q=" + std::string(kernel.element);
  return text + " p_shift=" + std::to_string(kernel.p_shift);
}

void run_unit(const UnitKernel& kernel, Run& run) {
  UnitAttentionArgs args{};
  args.a = attention_args(run);
  const std::int64_t row_bytes = args.a.d * (kernel.element == "f16" ? 2 : 1);
  args.keys = aligned_payload(run, args.a.keys.payload, row_bytes);
  args.values = aligned_payload(run, args.a.values.payload, row_bytes);
  args.k_scale = args.a.keys.scale;
  args.part_keys = static_cast<int>(part_keys(run.call, run.device));
  const int parts = (args.a.len + args.part_keys - 1) / args.part_keys;
  args.partials = allocate_partials(run, args.a, parts);
  const int blocks = (args.a.q * args.a.group + kUnitRows - 1) / kUnitRows;
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(args.a.kv_heads * blocks),
                  static_cast<unsigned>(args.a.batch));
  const auto launch = args.a.d == 64 ? kernel.d64 : kernel.d128;
  launch<<<grid, static_cast<unsigned>(kernel.wave)>>>(args);
  run.launched(std::string(kernel.name).c_str());
  merge_partials(run, args.a, args.partials, args.a.values.scale);
}

template <const UnitKernel& kKernel>
constexpr Kernel row(bool (*chosen)(const Call&)) {
  return {"attention",
          kKernel.variant,
          chosen,
          [](const Call& call, const DeviceInfo& device) { check(kKernel, call, device); },
          [](const Call&) { return kKernel.name; },
          [](const Call& call, const DeviceInfo& device) { return contract(kKernel, call, device); },
          [](Run& run) { run_unit(kKernel, run); }};
}

// Left to itself the backend takes the unit where the first device has it and the call fits.
template <const UnitKernel& kKernel>
bool fits(const Call& call) {
  static const DeviceInfo device = open_device();
  return kKernel.has(device) && takes_shape(call) && takes_format(kKernel, call.text("k")) &&
         takes_format(kKernel, call.text("v")) && rows_are_vectors(call.input("k")) &&
         rows_are_vectors(call.input("v"));
}

constexpr Kernel kRows[] = {
#if ASSAY_GPU_HIP
    row<kWmmaFp8>(fits<kWmmaFp8>),
    row<kMfmaFp8>(fits<kMfmaFp8>),
    row<kWmmaF16>(fits<kWmmaF16>),
#endif
    row<kDecodedFp8>(never),
};

}  // namespace

bool has_wmma_fp8(const DeviceInfo& device) { return ASSAY_GPU_HIP != 0 && device.major == 12; }
bool has_wmma_f16(const DeviceInfo& device) { return ASSAY_GPU_HIP != 0 && device.major == 11; }
bool has_mfma_fp8(const DeviceInfo& device) {
  return ASSAY_GPU_HIP != 0 && device.major == 9 && device.minor == 4;
}
bool has_mfma_bf16(const DeviceInfo& device) { return has_mfma_i8(device); }
bool has_mfma_i8(const DeviceInfo& device) {
  return ASSAY_GPU_HIP != 0 && device.major == 9 && (device.minor == 4 || device.minor == 0);
}

std::span<const Kernel> attention_unit_kernels() { return kRows; }

}  // namespace assay_gpu
