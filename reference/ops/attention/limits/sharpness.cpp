#include "reference/ops/attention/limits/sharpness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/ops/attention/attention.hpp"

namespace assay {
namespace {

constexpr std::array kDeclarations = {
    AttentionDeclaration{"f32 any", "f32", "f32", "qk=f32 pv=f32"},
    AttentionDeclaration{"f32 tiles", "f32", "f32",
                         "qk=f32 pv=f32 promote=64 order=tiles qk_order=lanes:32 pv_order=lanes:8"},
    AttentionDeclaration{"f16 any", "f16", "f16", "qk=hopper_f16 p=f16 pv=hopper_f16"},
    AttentionDeclaration{
        "f16 tiles", "f16", "f16",
        "qk=hopper_f16 p=f16 pv=hopper_f16 order=tiles qk_order=sequential pv_order=sequential "
        "rowsum_order=lanes:4"},
    AttentionDeclaration{"bf16 any", "bf16", "bf16", "qk=hopper_bf16 p=bf16 pv=hopper_bf16"},
    AttentionDeclaration{"bf16 tiles, f32 sums", "bf16", "bf16",
                         "qk=f32 p=bf16 pv=f32 promote=64 order=tiles qk_order=lanes:32"},
    AttentionDeclaration{
        "bf16 tiles", "bf16", "bf16",
        "qk=hopper_bf16 p=bf16 pv=hopper_bf16 order=tiles qk_order=sequential pv_order=sequential "
        "rowsum_order=lanes:4"},
    AttentionDeclaration{"bf16 descending, any in a tile", "bf16", "bf16",
                         "qk=hopper_bf16 p=bf16 pv=hopper_bf16 order=descending rowsum_order=lanes:4"},
    AttentionDeclaration{"e4m3 kv, bf16 products, any", "bf16", "e4m3fn",
                         "qk=f32 p=bf16 pv=f32 convert=bf16"},
    AttentionDeclaration{"e4m3 kv, bf16 products, tiles", "bf16", "e4m3fn",
                         "qk=hopper_bf16 p=bf16 pv=hopper_bf16 convert=bf16 order=tiles qk_order=sequential "
                         "pv_order=sequential rowsum_order=lanes:4"},
    AttentionDeclaration{
        "hopper_fp8 promote4, any", "bf16", "e4m3fn",
        "qk=hopper_fp8 q=e4m3fn p=e4m3fn p_shift=8 pv=hopper_fp8 tile=128 chunk=128 promote=128"},
    AttentionDeclaration{
        "hopper_fp8 promote4, tiles", "bf16", "e4m3fn",
        "qk=hopper_fp8 q=e4m3fn p=e4m3fn p_shift=8 pv=hopper_fp8 tile=128 chunk=128 promote=128 "
        "order=tiles qk_order=sequential pv_order=sequential rowsum_order=lanes:4"},
    AttentionDeclaration{
        "hopper_fp8 promote4, emulated", "bf16", "e4m3fn",
        "qk=hopper_fp8 q=e4m3fn p=e4m3fn p_shift=8 pv=hopper_fp8 tile=128 chunk=128 promote=128 "
        "order=sequential argument=rounded level=emu"},
};

}  // namespace

std::span<const AttentionDeclaration> attention_declarations() { return kDeclarations; }

AttentionSharpness attention_sharpness(const AttentionDeclaration& declaration, Design fill,
                                       std::int64_t keys, std::uint64_t seed) {
  const Attributes attributes =
      Attributes::complete(kAttention.attributes, {{"heads", "1"},
                                                   {"d", "128"},
                                                   {"len", fmt::format("{}", keys)},
                                                   {"kv", std::string(declaration.kv)},
                                                   {"dtype", std::string(declaration.dtype)}});
  const std::string held(find_scalar_format(declaration.kv) != nullptr ? declaration.kv : "f16");
  const AttentionFill f =
      attention_fill(fill, keys, 128, 128, std::string(declaration.dtype), held, held, seed);
  TensorSet inputs;
  kAttention.indices(attributes, seed, inputs);
  for (const TensorSpec& spec : kAttention.tensors(attributes)) {
    if (spec.role == TensorRole::data)
      inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape,
                                                       spec.name == "q"   ? f.q
                                                       : spec.name == "k" ? f.k
                                                                          : f.v));
  }
  const Truth t =
      kAttention.truth(attributes, inputs, Contract::parse(declaration.contract, kAttention.contract))[0];
  std::vector<double> seen;
  for (std::size_t i = 0; i < t.value.size(); ++i) seen.push_back(t.limit[i] / std::fabs(t.value[i]));
  std::sort(seen.begin(), seen.end());
  return {seen[seen.size() / 2], seen.front()};
}

}  // namespace assay
