#include "reference/near_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace assay {
namespace {

// Levenshtein distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substitute});
    }
  }
  return row.back();
}

// What other projects call it: their word, ours in order of preference.
struct OtherName {
  std::string_view theirs;
  std::array<std::string_view, 3> ours;
};
constexpr OtherName kOtherNames[] = {
    {"fp64", {"f64"}},
    {"float64", {"f64"}},
    {"double", {"f64"}},
    {"fp32", {"f32"}},
    {"float32", {"f32"}},
    {"float", {"f32"}},
    {"fp16", {"f16"}},
    {"float16", {"f16"}},
    {"half", {"f16"}},
    {"bfloat16", {"bf16"}},
    {"fp8", {"e4m3fn_tensor", "e4m3fn"}},
    {"fp8_e4m3", {"e4m3fn_tensor", "e4m3fn"}},
    {"fp8_e5m2", {"e5m2_tensor", "e5m2"}},
    {"float8_e4m3fn", {"e4m3fn"}},
    {"float8_e5m2", {"e5m2"}},
    {"fp4", {"mxfp4", "nvfp4", "e2m1"}},
    {"int8", {"int8_tensor"}},
    {"head_dim", {"d"}},
    {"head_size", {"d"}},
    {"head_dim_v", {"dv"}},
    {"num_heads", {"heads"}},
    {"n_heads", {"heads"}},
    {"num_kv_heads", {"kv_heads"}},
    {"seq_len", {"len", "tokens"}},
    {"seqlen", {"len", "tokens"}},
    {"kv_len", {"len"}},
    {"q_len", {"q"}},
    {"batch_size", {"batch", "rows"}},
    {"num_tokens", {"tokens", "rows"}},
    {"hidden_size", {"hidden", "cols"}},
    {"hidden_dim", {"hidden", "cols"}},
    {"intermediate_size", {"inter"}},
    {"num_experts", {"experts"}},
    {"top_k", {"topk"}},
    {"page_size", {"page"}},
    {"block_size", {"page", "block"}},
    {"sm_scale", {"scale"}},
    {"softmax_scale", {"scale"}},
    {"logits_soft_cap", {"softcap"}},
    {"window_size", {"window"}},
    {"is_causal", {"mask"}},
    {"epsilon", {"eps"}},
    {"variance_epsilon", {"eps"}},
    {"norm", {"rmsnorm", "layernorm"}},
    {"rms_norm", {"rmsnorm"}},
    {"layer_norm", {"layernorm"}},
    {"gemm", {"matmul"}},
    {"linear", {"matmul"}},
    {"sdpa", {"attention"}},
    {"flash_attention", {"attention"}},
};

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& allowed) {
  const auto has = [&](std::string_view name) { return std::ranges::find(allowed, name) != allowed.end(); };
  for (const OtherName& other : kOtherNames)
    if (other.theirs == given)
      for (const std::string_view ours : other.ours)
        if (!ours.empty() && has(ours)) return std::string(ours);
  constexpr std::size_t kLongestName = 256, kFront = 3;  // nothing that is longer is near to a name
  if (given.size() > kLongestName) return "";
  std::string nearest;
  std::size_t best = std::max<std::size_t>(2, given.size() / 3) + 1;
  for (const auto& name : allowed) {
    if (given.size() > kFront && name.starts_with(given)) return name;  // its beginning
    const std::size_t d = distance(given, name);
    if (d < best) best = d, nearest = name;
  }
  return nearest;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out(text.substr(0, kMost));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  if (text.size() > kMost) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

std::string suggest(std::string_view given, const std::vector<std::string>& allowed) {
  const std::string nearest = nearest_name(given, allowed);
  const std::string list = fmt::format("allowed: {}", fmt::join(allowed, " "));
  return nearest.empty() ? list : fmt::format("did you mean '{}'? {}", nearest, list);
}

InputError unknown_name(std::string_view what, std::string_view given,
                        const std::vector<std::string>& allowed) {
  return {InputErrorKind::unknown_name,
          fmt::format("no {} '{}'; {}", what, excerpt(given), suggest(given, allowed))};
}

}  // namespace assay
