// Products of prepared operands on AMD's matrix units, int8 into int32 (W4A8, W8A8), FP8 and bf16 into f32:
// the kernels by name, and the host's side of them. Integer sums are exact as long as they stay below 2^31.
#include "backends/hip/unit_gemm.cuh"
#include "backends/hip/unit_kernels.hpp"

namespace assay_gpu {

#define ASSAY_UNIT_GEMM(NAME, WAVE) \
  __global__ void __launch_bounds__(WAVE) NAME(const GPU_GRID_CONSTANT Gemm g);
#define ASSAY_UNIT_GEMM_STUB(NAME) \
  __global__ void NAME(const GPU_GRID_CONSTANT Gemm) {}
#define ASSAY_UNIT_GEMM_BODY(NAME, ...) \
  __global__ void NAME(const GPU_GRID_CONSTANT Gemm g) { multiply_on_unit<__VA_ARGS__>(g); }

ASSAY_UNIT_GEMM(gemm_mfma_s8, 64)
ASSAY_UNIT_GEMM(gemm_mfma_fp8, 64)
ASSAY_UNIT_GEMM(gemm_mfma_bf16, 64)
ASSAY_UNIT_GEMM(gemm_wmma_fp8, 32)
ASSAY_UNIT_GEMM(gemm_wmma_bf16, 32)
ASSAY_UNIT_GEMM(gemm_decoded_fp8, 32)
ASSAY_UNIT_GEMM(gemm_decoded_bf16, 32)

namespace {

using DecodedFp8 = DecodedUnit<LayoutWmma8, Element::e4m3fn>;
using DecodedBf16 = DecodedUnit<LayoutWmma16Half, Element::bf16>;

}  // namespace

#if ASSAY_GPU_HIP && !ASSAY_DEVICE_PASS
ASSAY_UNIT_GEMM_STUB(gemm_mfma_s8)
ASSAY_UNIT_GEMM_STUB(gemm_mfma_fp8)
ASSAY_UNIT_GEMM_STUB(gemm_mfma_bf16)
ASSAY_UNIT_GEMM_STUB(gemm_wmma_fp8)
ASSAY_UNIT_GEMM_STUB(gemm_wmma_bf16)
ASSAY_UNIT_GEMM_STUB(gemm_decoded_fp8)
ASSAY_UNIT_GEMM_STUB(gemm_decoded_bf16)
#else
#if !ASSAY_EXHIBIT  // of the kernels for gfx12 alone
ASSAY_UNIT_GEMM_BODY(gemm_decoded_fp8, DecodedFp8)
ASSAY_UNIT_GEMM_BODY(gemm_decoded_bf16, DecodedBf16)
#endif
#if ASSAY_UNIT_MFMA_I8 || ASSAY_UNIT_MFMA_I8_DEEP
ASSAY_UNIT_GEMM_BODY(gemm_mfma_s8, MfmaI8)
#elif ASSAY_FALLBACK_WITHOUT_UNIT && !ASSAY_EXHIBIT
ASSAY_UNIT_GEMM_BODY(gemm_mfma_s8, IntegerUnit<LayoutMfma8>)
#endif
#if ASSAY_UNIT_MFMA_FP8
ASSAY_UNIT_GEMM_BODY(gemm_mfma_fp8, MfmaFp8)
#endif
#if ASSAY_UNIT_MFMA_BF16
ASSAY_UNIT_GEMM_BODY(gemm_mfma_bf16, MfmaBf16)
#endif
#if ASSAY_UNIT_WMMA_FP8
ASSAY_UNIT_GEMM_BODY(gemm_wmma_fp8, taken<WmmaFp8, DecodedFp8>)
ASSAY_UNIT_GEMM_BODY(gemm_wmma_bf16, taken<WmmaBf16, DecodedBf16>)
#elif ASSAY_FALLBACK_WITHOUT_UNIT
ASSAY_UNIT_GEMM_BODY(gemm_wmma_fp8, DecodedFp8)
ASSAY_UNIT_GEMM_BODY(gemm_wmma_bf16, DecodedBf16)
#endif
#endif

namespace {

template <void (*kKernel)(Gemm), int kWave>
void launch(Run&, const Gemm& g) {
  const dim3 grid(static_cast<unsigned>((g.n + kUnitBlock * kUnitColumns - 1) / (kUnitBlock * kUnitColumns)),
                  static_cast<unsigned>((g.m + kUnitBlock - 1) / kUnitBlock));
  kKernel<<<grid, kWave>>>(g);
}

bool takes_codes_or_e4m3fn(Path path) { return path == Path::codes || path == Path::e4m3fn; }
bool takes_bf16(Path path) { return path == Path::bf16; }
std::string in_f32(const DeviceInfo&) { return "acc=f32"; }

#if ASSAY_GPU_HIP
bool takes_codes(Path path) { return path == Path::codes; }
template <bool (*kHas)(const DeviceInfo&)>
void need_unit(const DeviceInfo& device, const char* name) {
  if (!kHas(device)) throw Unsupported(std::string(name) + ": " + device.name + " has no such matrix unit");
}
const GemmKernel kMfmaI8 = {
    "gemm_mfma_s8",
    Stored::byte,
    true,
    takes_codes,
    [](const Product&, const DeviceInfo& device) { need_unit<has_mfma_i8>(device, "mfma_i8"); },
    [](const DeviceInfo&) { return std::string("acc=i32"); },
    launch<gemm_mfma_s8, 64>};
const GemmKernel kMfmaFp8 = {"gemm_mfma_fp8",
                             Stored::byte,
                             false,
                             takes_codes,
                             [](const Product& product, const DeviceInfo& device) {
                               need_unit<has_mfma_fp8>(device, "mfma_fp8");
                               check_codes(product, Element::e4m3fnuz, "e4m3fnuz");
                             },
                             [](const DeviceInfo&) { return std::string("acc=cdna3_fp8 block=16 split=1"); },
                             launch<gemm_mfma_fp8, 64>};
const GemmKernel kMfmaBf16 = {
    "gemm_mfma_bf16",
    Stored::half,
    false,
    takes_bf16,
    [](const Product&, const DeviceInfo& device) { need_unit<has_mfma_bf16>(device, "mfma_bf16"); },
    [](const DeviceInfo& device) {
      return std::string(device.minor == 4 ? "acc=cdna3_bf16 block=8 split=1"
                                           : "acc=cdna2_bf16 block=4 split=1");
    },
    launch<gemm_mfma_bf16, 64>};
const GemmKernel kWmmaFp8 = {"gemm_wmma_fp8",
                             Stored::byte,
                             false,
                             takes_codes_or_e4m3fn,
                             [](const Product& product, const DeviceInfo& device) {
                               need_unit<has_wmma_fp8>(device, "wmma_fp8");
                               check_codes(product, Element::e4m3fn, "e4m3fn");
                             },
                             [](const DeviceInfo&) { return std::string("acc=rdna4_fp8 block=16 split=1"); },
                             launch<gemm_wmma_fp8, 32>};
const GemmKernel kWmmaBf16 = {
    "gemm_wmma_bf16",
    Stored::half,
    false,
    takes_bf16,
    [](const Product&, const DeviceInfo& device) { need_unit<has_wmma_fp8>(device, "wmma_bf16"); },
    [](const DeviceInfo&) { return std::string("acc=rdna4_bf16 block=16 split=1"); },
    launch<gemm_wmma_bf16, 32>};
#endif
const GemmKernel kDecodedFp8 = {
    "gemm_decoded_fp8",
    Stored::byte,
    false,
    takes_codes_or_e4m3fn,
    [](const Product& product, const DeviceInfo&) { check_codes(product, Element::e4m3fn, "e4m3fn"); },
    in_f32,
    launch<gemm_decoded_fp8, 32>};
const GemmKernel kDecodedBf16 = {
    "gemm_decoded_bf16", Stored::half, false, takes_bf16, nullptr, in_f32, launch<gemm_decoded_bf16, 32>};

}  // namespace

#if ASSAY_GPU_HIP
const GemmKernel& gemm_mfma_i8() { return kMfmaI8; }
const GemmKernel& gemm_mfma_fp8() { return kMfmaFp8; }
const GemmKernel& gemm_mfma_bf16() { return kMfmaBf16; }
const GemmKernel& gemm_wmma_fp8() { return kWmmaFp8; }
const GemmKernel& gemm_wmma_bf16() { return kWmmaBf16; }
#endif
const GemmKernel& gemm_decoded_fp8() { return kDecodedFp8; }
const GemmKernel& gemm_decoded_bf16() { return kDecodedBf16; }

}  // namespace assay_gpu
