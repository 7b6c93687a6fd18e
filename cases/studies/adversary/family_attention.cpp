// attention (attention_kernel.hpp), as three families: logits and products summed in every order, weights
// cast and shifted, row sums and accumulators in f32 or f16; the same on matrix units; and caches in blocks
// of codes, rotated, in pages, with q in codes.
#include <string>

#include "cases/studies/adversary/attention_kernel.hpp"
#include "cases/studies/adversary/families.hpp"
#include "cases/studies/adversary/units.hpp"

namespace assay::adversary {
namespace {

// What every kernel chooses besides its sums.
#define ASSAY_SOFTMAX_AXES                                                                                 \
  {"say", "any|sharp|sharp"}, {"scores", "f32|f32|f32|f16|bf16"}, {"exp", "e|e|base2|base2_fused|folded"}, \
      {"exp_ulp", "0.5|1|2|8"}, {"merge", "states|once|logs|any|weighed"}, {"start", "0|0|0|first|end|5"}, \
      {"direction", "ascending|ascending|ascending|descending"},                                           \
      {"weights", "running|running|running|shares"}, {"empty", "zero|zero|mean|nan"},                      \
      {"hidden", "skipped|skipped|added"}, {"exp_flush", "no|no|yes"}, {"tanh", "exact|1|4|approx"},       \
      {"quotient", kQuotients}, {"sides", kSides}, {"denominator", "exact|cast"}, {"split", "1|1|1|2|4"},  \
      {"sink", "first|last|before"}, {"lag", "0|0|0|2|5.5"}, {"casts", "nearest|nearest|nearest|cut"},     \
      {"level", "detap|detord|ca|ca"}, kStoreAxes[0]

constexpr Axis kShape[] = {
    {"batch", "1|1|1|2"},
    {"page", "0|0|0|16"},
    {"lengths", "full|full|full|ragged"},
    {"heads", "1|1|2"},
    {"d", "1|2|8|32|64"},
    {"dv", "1|2|8"},
    {"q", "1|1|2"},
    {"len", "1|2|3|17|64|100|100|300|1000"},
    {"kv", "f16|f16|f32|bf16|e4m3fn_tensor|int8_tok"},
    {"dtype", "f32|f32|f16|bf16"},
    {"mask", "none|none|causal|random"},
    {"softcap", "0|0|0|30|1|50"},
    {"sinks", "no|no|yes"},
    {"alibi", "no|no|no|yes"},
    {"scale", "0|0|1|0.01|8"},
};
constexpr Axis kKernel[] = {
    {"qk", "f32|f32|f32|f16"},
    {"chunk", "none|none|16"},
    {"sum", kSums},
    {"fused", "no|yes"},
    {"convert", "none|none|none|f16|bf16|tf32"},
    {"q", "none|none|none|f16|bf16|tf32"},
    {"tf32", "even|cut"},
    {"scaling", "scores|q|q_rounded"},
    {"tile", "none|1|16|64"},
    {"p", "f32|f32|f16|bf16|tf32|e4m3fn"},
    {"p_shift", "0|0|0|8|2.5"},
    {"rowsum", "f32|f32|f16"},
    {"pv", "f32|f32|f16"},
    {"promote", "none|none|32"},
    ASSAY_SOFTMAX_AXES,
};

constexpr Axis kUnitShape[] = {
    {"batch", "1|1|2"},
    {"heads", "1|1|2"},
    {"d", "16|32|64|128"},
    {"dv", "1|2|8"},
    {"q", "1|1|2"},
    {"len", "1|2|17|64|100|300"},
    {"kv", "f16|bf16|e4m3fn|e4m3fn_tensor|e4m3fn_head|e5m2_head|e4m3fnuz_tensor"},
    {"page", "0|0|16"},
    {"lengths", "full|full|ragged"},
    {"dtype", "f32|f16|bf16"},
    {"mask", "none|none|causal|random"},
    {"softcap", "0|0|0|30"},
    {"sinks", "no|no|yes"},
    {"alibi", "no|no|no|yes"},
    {"scale", "0|0|1|8"},
};
constexpr Axis kUnitKernel[] = {
    {"unit", kArchitectures},
    {"sum", "seq|tree|lanes:4|strided:8|random"},
    {"pick", "0|0|1|2"},
    {"blocks", "seq|seq|perm"},
    {"chunk", "none|none|64"},
    {"promote", "none|none|64"},
    {"tile", "64|64|128"},
    {"q_scale", "divide|reciprocal"},
    {"q_code", "divide|reciprocal|direct"},
    {"convert", "none|none|none|f16|bf16|tf32"},
    {"tf32", "even|cut"},
    {"rowsum", "f32|f32|f32|f16"},
    {"p_shift", "0|0|8"},
    ASSAY_SOFTMAX_AXES,
};
// Caches in blocks of codes, rotated or not, pages and ragged lengths, q in codes; scalar sums.
constexpr Axis kStoredShape[] = {
    {"batch", "1|2"},
    {"heads", "1|2"},
    {"d", "32|32|64"},
    {"dv", "32|32|64"},
    {"q", "1|1|2"},
    {"len", "1|2|17|64|100|300"},
    {"kv", "q8_0|q8_0|q4_0|tq3_0_c2s1|tq3_0_c2|f16|e4m3fn_tok|int8_tok|nvfp4|mxfp4"},
    {"page", "0|16|16"},
    {"lengths", "full|ragged"},
    {"rotate", "none|qk|qkv|qkv"},
    {"dtype", "f32|f32|f16|bf16"},
    {"mask", "none|none|causal|random"},
    {"softcap", "0|0|0|30"},
    {"sinks", "no|no|yes"},
    {"scale", "0|0|1|8"},
};
constexpr Axis kStoredKernel[] = {
    {"qk", "f32|f32|f32|f16"},
    {"chunk", "none|none|16"},
    {"sum", kSums},
    {"fused", "no|yes"},
    {"q", "none|q8_0|q8_0|q8_0|e4m3fn|e4m3fnuz|e5m2"},
    {"q_scale", "divide|reciprocal"},
    {"q_code", "divide|reciprocal|direct"},
    {"q_ties", "even|away"},
    {"q_sums", "terms|integers"},
    {"unrotate", "before|after|in_two"},
    {"v_inverse", "value|value|row"},
    {"convert", "none|none|none|f16|bf16"},
    {"tile", "none|16|64"},
    {"p", "f32|f32|f16|bf16|e4m3fn"},
    {"p_shift", "0|0|0|8"},
    {"rowsum", "f32|f32|f16"},
    {"pv", "f32|f32|f16"},
    {"promote", "none|none|16"},
    ASSAY_SOFTMAX_AXES,
};

// What a point leaves out is the first word of its axis. What a matrix unit is given is of its own format: q
// and the weights are converted to that of K and V.
Choices completed(std::span<const Axis> axes, const Attributes& a, Choices c) {
  for (const Axis& axis : axes) c.emplace(axis.name, words_of(axis.words).front());
  if (!c.contains("unit")) return c;
  const std::string element = attention_element(a, c);
  c["q"] = c["p"] = element;
  if (c["q"] == a.text("dtype")) c["q"] = "none";
  c["qk"] = c["pv"] =
      unit_of(choice(c, "unit"), element, element, static_cast<std::int64_t>(positive_number(c, "pick")))
          .name;
  return c;
}

// Tiles begin at multiples of their length from key 0, and the parts of a split are equal runs of them.
bool is_aligned(const Attributes& a, const Choices& c) {
  if (choice(c, "start") != "0") return false;
  return choice(c, "split") == "1" ||
         (choice(c, "merge") != "states" && choice(c, "tile") != "none" && a.text("lengths") == "full");
}

void say(const Attributes& a, const Choices& c, Words& words) {
  const std::int64_t length = a.integer("len"),
                     split = static_cast<std::int64_t>(positive_number(c, "split"));
  for (const char* key :
       {"qk", "scores", "convert", "q", "v_inverse", "exp_ulp", "p", "p_shift", "denominator", "rowsum", "pv",
        "split", "lag", "weights", "empty", "hidden", "level"})
    if (c.contains(key)) {
      const bool is_known = std::string_view(key) == "denominator" && choice(c, "weights") == "shares";
      words.say(key, is_known ? "exact" : choice(c, key));
    }
  words.say("casts", choice(c, "casts") == "cut" ? "any" : "nearest");
  const auto is_tf32 = [&](const char* key) { return choice(c, key) == "tf32"; };
  if (is_tf32("convert") || is_tf32("q") || is_tf32("p"))
    words.say("tf32", choice(c, "tf32") == "even" ? "nearest_even" : "any");
  if (choice(c, "chunk") != "none") words.say("chunk", choice(c, "chunk"));
  if (choice(c, "promote") != "none") words.say("promote", choice(c, "promote"));
  words.say("tile", choice(c, "tile") == "none" ? static_cast<double>(length) : positive_number(c, "tile"));
  if (split > 1) words.say("part", static_cast<double>(attention_part(a, c)));
  if (!words.say("tanh_ulp", attention_tanh_ulps(c))) words.say("tanh_ulp", "4");
  words.say("div_ulp", quotient_ulp(choice(c, "quotient")));
  const std::string& sum = choice(c, "sum");
  const bool unit = c.contains("unit"), sharp = choice(c, "say") == "sharp",
             whole = sharp && is_aligned(a, c), tree = sum == "tree" || sum.starts_with("blocks:");
  // Tiles of a part of a split begin elsewhere.
  const bool sequential = !unit && sum == "seq" && choice(c, "promote") == "none" &&
                          choice(c, "chunk") == "none" && choice(c, "q_sums") != "integers";
  const bool down = choice(c, "direction") == "descending";
  // Of one part the order is said wherever its tiles begin: that is another word's.
  words.say("order", !whole && (!sharp || split > 1) ? "any"
                     : down                          ? "descending"
                     : sequential                    ? "sequential"
                                                     : "tiles");
  if (unit) {
    for (const char* key : {"qk_order", "pv_order"})
      words.say(key, sharp && choice(c, "blocks") == "seq" ? "sequential" : "any");
  } else {
    // Integer products of blocks are no order of the single products.
    words.say("qk_order", order_word(sum, sharp && choice(c, "q_sums") != "integers"));
    if (choice(c, "promote") != "none") words.say("pv_order", order_word(sum, sharp));
  }
  // One by one onto the running sum is one running sum over all tiles; else a tile's own sum is formed first.
  if (sum == "seq" && !down)
    words.say("rowsum_order", "sequential");
  else if (tree)
    words.say("rowsum_order", order_word(sum, sharp));
  if (choice(c, "exp") == "e" || choice(c, "exp") == "folded") words.say("argument", "rounded");
  // `any` is scores or q.
  const std::string scaling = c.contains("scaling") ? choice(c, "scaling") : "scores";
  if (sharp || scaling == "q_rounded") words.say("scaling", scaling);
  if (sharp) {
    words.say("sink", choice(c, "sink") == "before" ? "first" : "last");
    const std::string& merge = choice(c, "merge");
    words.say("merge", merge == "logs" || merge == "weighed" ? "once" : merge);
    if (whole) words.say("tiles", "aligned");
  }
  words.say("out", choice(c, "out"));
}

template <const auto& kAxes>
void contract(const Attributes& a, const Choices& given, Words& words) {
  say(a, completed(kAxes, a, given), words);
}
template <const auto& kAxes>
Outputs run(const Problem& given) {
  const Choices choices = completed(kAxes, given.attributes, given.choices);
  return run_attention({given.op, given.attributes, choices, given.set, given.values});
}

}  // namespace

extern const Family kAttentionFamily{"attention",         "attention",       kShape,      kKernel,
                                     "last_key_unsummed", contract<kKernel>, run<kKernel>};
extern const Family kAttentionUnitFamily{"attention_unit", "attention",         kUnitShape,
                                         kUnitKernel,      "last_key_unsummed", contract<kUnitKernel>,
                                         run<kUnitKernel>};
extern const Family kAttentionStoredFamily{"attention_stored", "attention",         kStoredShape,
                                           kStoredKernel,      "last_key_unsummed", contract<kStoredKernel>,
                                           run<kStoredKernel>};

}  // namespace assay::adversary
