// FlashInfer's decode of one request (https://github.com/flashinfer-ai/flashinfer, headers alone), as a C
// function.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>

namespace {

using Variant = flashinfer::DefaultAttention<false, false, false, false>;

template <unsigned kHeadDim, class Q, class KV>
int decode(void* q, void* k, void* v, void* o, void* tmp, int keys, int heads, int kv_heads, float scale) {
  using Params = flashinfer::SingleDecodeParams<Q, KV, Q>;
  Params p(static_cast<Q*>(q), static_cast<KV*>(k), static_cast<KV*>(v), static_cast<Q*>(o), nullptr, keys,
           heads, kv_heads, flashinfer::QKVLayout::kNHD, kHeadDim, -1, 0.0f, scale, 1.0f, 1.0f);
  return flashinfer::SingleDecodeWithKVCacheDispatched<kHeadDim, flashinfer::PosEncodingMode::kNone, Variant>(
      p, static_cast<Q*>(tmp), nullptr);
}
template <class Q, class KV>
int of_width(int d, void* q, void* k, void* v, void* o, void* tmp, int keys, int heads, int kv_heads,
             float scale) {
  if (d == 64) return decode<64, Q, KV>(q, k, v, o, tmp, keys, heads, kv_heads, scale);
  if (d == 128) return decode<128, Q, KV>(q, k, v, o, tmp, keys, heads, kv_heads, scale);
  return -1;
}

}  // namespace

// q and o are f16 or bf16 (bf16 != 0), K and V are of the same or e4m3 (fp8 != 0), all [.., heads, d] without
// gaps. tmp: room for the parts of a split, or none: not split. Returns a cudaError_t, or -1 for a d that was
// not compiled.
extern "C" int flashinfer_decode(int bf16, int fp8, int d, void* q, void* k, void* v, void* o, void* tmp,
                                 int keys, int heads, int kv_heads, float scale) {
  if (bf16 && fp8)
    return of_width<__nv_bfloat16, __nv_fp8_e4m3>(d, q, k, v, o, tmp, keys, heads, kv_heads, scale);
  if (bf16) return of_width<__nv_bfloat16, __nv_bfloat16>(d, q, k, v, o, tmp, keys, heads, kv_heads, scale);
  if (fp8) return of_width<__half, __nv_fp8_e4m3>(d, q, k, v, o, tmp, keys, heads, kv_heads, scale);
  return of_width<__half, __half>(d, q, k, v, o, tmp, keys, heads, kv_heads, scale);
}
