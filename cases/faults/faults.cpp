#include "cases/faults/faults.hpp"
#include "cases/faults/families.hpp"

namespace assay {
namespace {

using namespace fault_families;

constexpr Fault on_values(std::string_view name, std::string_view ops, Requirement requirement,
                          std::string_view site, std::string_view injects, std::string_view owes,
                          void (*inject)(const FaultSite&, Values&)) {
  return {name, ops, FaultKind::input, requirement, site, injects, owes, inject, nullptr};
}
constexpr Fault on_bytes(std::string_view name, std::string_view ops, Requirement requirement,
                         std::string_view site, std::string_view injects, std::string_view owes,
                         void (*inject)(const FaultSite&, TensorSet&)) {
  return {name, ops, FaultKind::input, requirement, site, injects, owes, nullptr, inject};
}
constexpr Fault corruption(std::string_view name, std::string_view ops, std::string_view site,
                           std::string_view injects, void (*inject)(const FaultSite&, TensorSet&)) {
  return {name,
          ops,
          FaultKind::corruption,
          Requirement::be_wrong,
          site,
          injects,
          "computes from what it is given: wrong against the clean inputs",
          nullptr,
          inject};
}

// Of attention the first tensor is q.
constexpr std::string_view kRows = "softmax logsumexp layernorm rmsnorm wht matmul moe attention";
// moe: nothing is claimed of a token that meets an infinity.
constexpr std::string_view kInfinite = "softmax logsumexp layernorm rmsnorm wht matmul quantize";
constexpr std::string_view kFloating = "softmax logsumexp layernorm rmsnorm wht matmul quantize attention";
constexpr std::string_view kScaled = "attention matmul moe dequantize requantize";
constexpr std::string_view kManyScales = "attention matmul moe dequantize";

constexpr Fault kFaults[] = {
    // Values: kernel and reference see them.
    on_values("nan_value", kRows, Requirement::contain, "one element of the first tensor", "NaN",
              "propagates within its row, group, token or query; all others keep their bits", nan_value),
    on_values("nan_code", "quantize dequantize kv_write", Requirement::judge, "one element of x", "NaN",
              "a format that has a NaN gives it back", nan_code),
    on_values("nan_leader", "argmax", Requirement::judge, "x[0,0]", "NaN",
              "sticks at index 0, or is reported when checked=yes", nan_leader),
    on_values("nan_follower", "argmax", Requirement::judge, "two elements of a row, beyond its first", "NaN",
              "lose or win as declared, or the first is reported when checked=yes", nan_follower),
    on_values("inf_value", kInfinite, Requirement::judge, "one element of the first tensor", "+Inf",
              "IEEE rules within its row", inf_value),
    on_values("negative_inf_value", kInfinite, Requirement::judge, "one element of the first tensor", "-Inf",
              "IEEE rules within its row; a logit of -Inf weighs nothing", negative_inf_value),
    on_values("infinite_row", "softmax logsumexp argmax", Requirement::judge,
              "every element of the middle row", "-Inf",
              "logsumexp: -Inf; softmax: NaN, or 0 as declared; argmax: 0, the first of equals",
              infinite_row),
    on_values("inf_against_zero", "matmul", Requirement::judge, "one term of b",
              "+Inf, against a = 0 in every other row", "0 times Inf is NaN, other rows are infinite",
              inf_against_zero),
    on_values("outlier_value", "quantize kv_write layernorm rmsnorm matmul dequantize", Requirement::judge,
              "one element of the first tensor", "+-800", "saturates where the scale is fixed",
              outlier_value),
    on_values("subnormal_values", kFloating, Requirement::judge, "every fourth element of the first tensor",
              "below the smallest normal of its format", "computes with it, or declares ftz",
              subnormal_values),
    on_values("negative_zeros", kFloating, Requirement::judge, "every third element of the first tensor",
              "-0", "treats it as zero", negative_zeros),
    on_values("equal_maxima", "softmax logsumexp argmax", Requirement::judge, "two elements of every row",
              "the row's largest, of argmax in every second row -0 and 0",
              "weighs them alike; argmax takes the first", equal_maxima),
    on_values("halfway_values", "quantize", Requirement::judge, "every second element",
              "half-way between two codes", "rounds as it declares", halfway_values),
    on_values("low_scores", "attention softmax logsumexp", Requirement::judge, "every fourth logit of a row",
              "-500", "weighs nothing, and stays finite", low_scores),
    on_values("high_score", "attention softmax logsumexp", Requirement::judge, "one logit", "+65504",
              "takes all the weight, and stays finite", high_score),
    on_values("very_low_scores", "attention softmax logsumexp", Requirement::judge,
              "every fourth logit of a row", "-65504", "weighs nothing, and stays finite", very_low_scores),

    // Codes that no encoder writes, and cache contents: kernel and reference see them.
    on_bytes("least_codes", "attention matmul moe dequantize requantize", Requirement::judge,
             "every eighth 8-bit integer code", "-128", "-128 times the scale", least_codes),
    on_bytes("inf_code", "matmul dequantize", Requirement::judge, "one code of the first tensor", "+Inf",
             "IEEE rules; a scale keeps it", inf_code),
    on_bytes("nan_all_ones", "quantize dequantize kv_write layernorm rmsnorm softmax matmul",
             Requirement::judge, "one element of the first tensor",
             "the NaN of which all bits but the sign are set (0x7fffffff in f32)",
             "stays a NaN in a format that has one: rounding its bits as if they were a number gives -0",
             nan_all_ones),
    on_bytes("negative_nan",
             "quantize dequantize kv_write softmax logsumexp layernorm rmsnorm wht matmul moe attention",
             Requirement::judge, "one element of each tensor with rows, but K",
             "a NaN with its sign set and a drawn payload (0xff in e4m3fn)", "as any NaN", negative_nan),
    on_bytes("nan_scale", "attention matmul moe dequantize", Requirement::judge, "one 8-bit scale", "NaN",
             "every element of its group is NaN", nan_scale),
    on_bytes("repeated_expert", "moe", Requirement::judge, "the first token's second expert", "its first",
             "counts twice, or declares experts=distinct", repeated_expert),
    on_bytes("nan_masked_key", "attention", Requirement::conceal, "K and V of every key that no row sees",
             "NaN", "never shows", nan_hidden_keys),
    on_bytes("nan_visible_key", "attention", Requirement::contain, "K of one visible key, KV head 0", "NaN",
             "poisons exactly the rows that see it", nan_visible_key),
    on_bytes("nan_visible_value", "attention", Requirement::contain, "one element of V of one visible key",
             "NaN", "poisons exactly its column of the rows that see it", nan_visible_value),
    on_bytes("inf_visible_value", "attention", Requirement::contain, "one element of V of one visible key",
             "+Inf", "reaches its column of the rows that see it alone", inf_visible_value),
    on_bytes("poison_unused_pages", "attention", Requirement::conceal, "pages of no sequence", "NaN",
             "never shows", poison_unused_pages),
    on_bytes("poison_tails", "attention", Requirement::conceal, "tokens behind a sequence's end", "NaN",
             "never shows", poison_tails),

    // Corruptions: only the kernel sees them.
    corruption("payload_bit", "", "the uppermost bit of one code", "flipped", payload_bit),
    corruption("code_bit", "attention matmul dequantize requantize", "one bit inside one block",
               "flipped: another entry of the codebook", code_bit),
    corruption("scale_bit", kScaled, "one scale", "one bit flipped", scale_bit),
    corruption("sign_mask_bit", "wht", "the sign mask", "one bit flipped", sign_mask_bit),
    corruption("mask_bit", "attention softmax", "the visibility mask", "one key's bit flipped", mask_bit),
    corruption("page_bit", "attention", "the page table", "one low bit of an entry flipped", page_bit),
    corruption("scale_locked", kScaled, "f32 scales and codes",
               "quantised under an earlier, four times smaller range", scale_locked),
    corruption("scale_zero", kScaled, "f32 scales", "0", scale_zero),
    corruption("scale_negative", kScaled, "f32 scales of the first tensor", "negated", scale_negative),
    corruption("scale_dropped", kScaled, "f32 scales", "1", scale_dropped),
    corruption("scale_inverted", kScaled, "f32 scales", "their reciprocals: the wrong direction",
               scale_inverted),
    corruption("scale_stale_step", kManyScales, "f32 scales", "those of the group before", scale_stale_step),
    corruption("scale_stale_page", "attention", "f32 scales of tokens", "those of the page before",
               scale_stale_page),
    corruption("scale_coarse", kManyScales, "f32 scales", "the largest of them everywhere: granularity lost",
               scale_coarse),
    corruption("scale_swapped_kv", "attention", "f32 scales of K and V", "each other's", scale_swapped_kv),
    corruption("page_swap", "attention", "the page table", "two entries exchanged", page_swap),
    corruption("page_16_bits", "attention", "the page table", "block ids cut to 16 bits", page_16_bits),
    corruption("length_off_by_one", "attention", "the lengths", "one more or one less", length_off_by_one),
    corruption("stale_tail", "attention", "K and V of the last key", "those of the key before", stale_tail),
    corruption("wrong_head", "attention", "K", "each KV head holds its neighbour's", wrong_head),
    corruption("swapped_kv", "attention", "K and V", "each other's", swapped_kv),
    corruption("slots_swapped", "kv_write", "the slots", "two tokens exchanged", slots_swapped),
    corruption("wrong_expert", "moe", "the routing", "one token's first expert is the next one",
               wrong_expert),
};

}  // namespace

std::span<const Fault> faults() { return kFaults; }

}  // namespace assay
