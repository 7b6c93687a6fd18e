// The words of attention: attributes of a case, keys of a contract. What the keys mean in full: problem.hpp.
#include "reference/ops/attention/problem.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

constexpr KeySpec kAttributes[] = {
    {"batch", KeyKind::integer, "1", "1..65536", "sequences"},
    {"heads", KeyKind::integer, "", "1..65536", "query heads"},
    {"kv_heads", KeyKind::integer, "@heads", "1..65536", "heads of K and V; divides heads"},
    {"d", KeyKind::integer, "", "1..65536", "width of a q or k row"},
    {"dv", KeyKind::integer, "@d", "1..65536", "width of a v or output row"},
    {"q", KeyKind::integer, "1", "1..1048576", "query rows of each sequence"},
    {"len", KeyKind::integer, "", "1..4194304", "keys of a sequence (the longest, when ragged)"},
    {"kv", KeyKind::format, "f16", "", "format of K and V"},
    {"k", KeyKind::format, "@kv", "", "format of K"},
    {"v", KeyKind::format, "@kv", "", "format of V"},
    {"dtype", KeyKind::format, "f16", "f32|f16|bf16", "format of q and of the output"},
    {"mask", KeyKind::word, "none", "none|causal|window|random",
     "which keys a row sees; bottom-right aligned"},
    {"window", KeyKind::integer, "0", "0..4194304", "keys that a row of mask=window sees, itself included"},
    {"softcap", KeyKind::real, "0", "0..1000000", "softcap tanh(s / softcap), at least 1e-12; 0: none"},
    {"sinks", KeyKind::word, "no", "no|yes", "one more logit per head in the denominator"},
    {"alibi", KeyKind::word, "no", "no|yes", "- slope |i - j| added to the logits, not slope j"},
    {"page", KeyKind::integer, "0", "0..65536", "keys per page; 0: contiguous"},
    {"scale", KeyKind::real, "0", "0..1000000", "of q.k, at least 1e-12; 0: 1/sqrt(d)"},
    {"rotate", KeyKind::word, "none", "none|qk|qkv", "what is stored rotated by the 32-point tq3 transform"},
    {"lengths", KeyKind::word, "full", "full|ragged", "keys of each sequence: len, or a length of its own"},
};

// Sums of integers are of codes alone, which no word here makes of weights.
constexpr const char* kSums = "f64|f32|f16|bf16, or a matrix unit";

constexpr KeySpec kContract[] = {
    {"qk", KeyKind::accumulator, "f32", kSums, "how q.k is summed, of operands in their own types"},
    {"chunk", KeyKind::integer, "1048576", "", "products per partial sum of q.k, then added in f32"},
    {"qk_block", KeyKind::integer, "1", "",
     "products that each block of a matrix unit holds at least, in every order, the last of a partial sum of "
     "q.k apart"},
    {"scores", KeyKind::word, "f32", "f32|tf32|f16|bf16",
     "format that scaled logits, of all keys in base e or in base 2, are rounded to once, before softcap and "
     "slope or behind "
     "them "
     "(level=emu: behind)"},
    {"q", KeyKind::word, "none", "none|f16|bf16|tf32|q8_0|q8_1|q8_K|e4m3fn|e4m3fnuz|e5m2",
     "format that q is converted to first, to nearest even; FP8: one scale per row and head, absmax / the "
     "largest number, 1 of zeros; q8_1: q8_0 and its blocks' sums d times that of the codes in f16, for K's "
     "minimum, or the offset of q4_0 and q5_0"},
    {"convert", KeyKind::word, "none", "none|f16|bf16|tf32",
     "format that K and V as decoded, code times scale, are converted to first, to nearest even; a unit is "
     "given what it takes: q, K, V and weights that it does not hold are refused until q=, convert= and p= "
     "say what they become"},
    {"tf32", KeyKind::word, "any", "any|nearest_even",
     "q=tf32, convert=tf32 and p=tf32: rounded to nearest even, or in any way, low bits ignored (level=emu: "
     "nearest_even)"},
    {"casts", KeyKind::word, "nearest", "nearest|any",
     "how scores, p, out and the store round: to nearest, halves either way (level=emu: to the even one), or "
     "to either neighbour, cut or stochastic (judged as level=detap; not at emu)"},
    {"v_inverse", KeyKind::word, "value", "value|row",
     "where V in tq3_0 is transformed back: each block as it is decoded (as K is, by butterflies in f32), or "
     "the sum, once per output row"},
    {"tile", KeyKind::integer, "64", "", "keys per step of the online softmax"},
    {"exp_ulp", KeyKind::real, "2", kUlps,
     "error of exp in ulps of f32 (correctly rounded: 0.5), and of the log of a merge; exp(0) is 1, exp of "
     "a mask 0 and log(1) 0; a rescale of a row is one factor, a number of f32"},
    {"tanh_ulp", KeyKind::real, "4", kUlps, "error of tanh (softcap) in ulps of f32; tanh(0) is 0"},
    {"div_ulp", KeyKind::real, "2", kUlps, "error of a quotient, or of reciprocal and product together"},
    {"p", KeyKind::rounding, "f32", "",
     "format of the weights that enter PV, not e8m0, which has no 0; one beyond its largest number is "
     "saturated, Inf or NaN "
     "(level=emu: FP8 is saturated)"},
    {"p_shift", KeyKind::real, "0", "0..64",
     "weights are multiplied by 2^this before the rounding to p; it leaves at the end, with or apart from "
     "the "
     "last quotient and the scale of V"},
    {"denominator", KeyKind::word, "exact", "exact|cast",
     "row sum of weights before 2^p_shift and the rounding to p, or behind them, times 2^p_shift as they "
     "then "
     "are (level=emu, and a log-sum-exp of a part: without it)"},
    {"rowsum", KeyKind::accumulator, "f32", kSums,
     "how the row sum is formed; by a matrix unit of weights as they were cast (denominator=cast)"},
    {"pv", KeyKind::accumulator, "f32", kSums, "how p.v is summed"},
    {"promote", KeyKind::integer, "1048576", "",
     "keys per partial sum of p.v, then added in f32, the last of them before a sink is met behind the keys; "
     "the default, and above tile at level=emu: never, and a sink rescales the register of pv"},
    {"pv_block", KeyKind::integer, "1", "",
     "keys that each block of a matrix unit holds at least, in every order, the last of a partial sum of p.v "
     "apart"},
    {"split", KeyKind::integer, "1", "", "parts of the keys computed apart and merged in f32"},
    {"part", KeyKind::integer, "4194304", "",
     "most keys of a part, where split is above 1; the default: one part may hold all keys"},
    {"out", KeyKind::word, "dtype", "dtype|f32|f16|bf16", "format of the result before it is stored"},
    {"order", KeyKind::word, "any", "any|tiles|descending|sequential",
     "order of the tiles; sequential: and of keys and products in them, weights entering the row sum one at "
     "a time"},
    {"qk_order",
     KeyKind::order,
     "any",
     "",
     "order of the products of a partial sum of q.k",
     {},
     "order!=sequential/qk_order=sequential"},
    {"pv_order",
     KeyKind::order,
     "any",
     "",
     "order of the keys of a partial sum of p.v",
     {},
     "order!=sequential/pv_order=sequential"},
    {"rowsum_order",
     KeyKind::order,
     "any",
     "",
     "order of the row sum: any: of all keys; sequential, lanes:N: of all keys in N running sums; else of a "
     "tile's "
     "weights, whose sum is added to the running one",
     {},
     "order!=sequential/rowsum_order=sequential"},
    {"argument", KeyKind::word, "any", "any|rounded",
     "rounded: a logit, times log2 e or not, is rounded before the maximum is subtracted; any: or fused with "
     "that subtraction, to which p_shift may be added (level=emu: a product of its own); a maximum that "
     "stays rescales by 1"},
    {"scaling",
     KeyKind::word,
     "any",
     "any|scores|q|q_rounded",
     "what the softmax scale multiplies: q.k, or q before it, in f32 and after its conversion (q_rounded, "
     "and q under a unit: rounded into its format again; codes, which have no q_rounded, are not: the scale "
     "meets that of the row or block); any: scores, or q and no rounding to a format",
     {},
     "q_rounded: q=none|f16|bf16"},
    {"tiles", KeyKind::word, "any", "any|aligned",
     "aligned: tiles begin at multiples of `tile` from key 0, and each part of a split is a run of "
     "ceil(tiles / split) of a sequence's tiles, the first from key 0, the last what is left, and "
     "no part is empty; any: they begin at key 0, at the first key that the row or a part of it sees, with a "
     "page (where it is no shorter), or "
     "are counted from the end"},
    {"sink", KeyKind::word, "any", "any|first|last",
     "when the running maximum and sum meet the sink, which raises the maximum where it is above it: before "
     "the keys or after them"},
    {"lag", KeyKind::real, "0", "",
     "a running maximum is kept until a logit is above it by more than this, in base e (lazy rescaling); 0: "
     "never"},
    {"merge", KeyKind::word, "any", "any|once|states",
     "parts: once: all scaled to their largest, divided by their sums before or not; states: running maxima "
     "and sums, one after the other; any: or log-sum-exps so"},
    {"weights",
     KeyKind::word,
     "running",
     "running|shares",
     "what is rounded to p: relative to a running maximum, or shares: divided first by the whole row "
     "sum, a sum of the same exps",
     {},
     "shares: denominator!=cast"},
    {"empty", KeyKind::word, "zero", "zero|mean|nan|any",
     "what a row that sees no key gives; mean: of V over the sequence (the lowest "
     "number of f32 is added as "
     "a mask to logits in base e, of every row, so that a NaN or an infinity of a hidden key makes NaN; "
     "nothing is claimed where scores is narrower, parts are merged by logarithms, or a sequence has no "
     "keys), with a sink 0; nan: beside a sink nothing is claimed"},
    {"hidden", KeyKind::word, "skipped", "skipped|added",
     "keys that a mask hides; added: -Inf is added to their logits and their weight of 0 meets V, so that a "
     "NaN "
     "or an infinity of theirs makes NaN"},
    {"level",
     KeyKind::word,
     "ca",
     "detap|detord|ca|emu|replay",
     "sharpest derivation; above detap of declared scaling, tiles, sink, merge; emu: of one kernel, step by "
     "step (order=sequential scaling=scores tiles=aligned sink=last, behind the last part of the "
     "sequence's keys, and merge=any: by logarithms; qk and pv not f64, narrow qk of products that f32 "
     "holds; hidden keys keep their places in "
     "blocks): numbers decoded to f32, the exact number rounded once, but for codes under one "
     "scale of the tensor, the head or a row of q, "
     "which "
     "enter the sums before it, full blocks of the unit in order, keys and products one after the other, no "
     "product fused but by a unit; the scale (all scales as one f32, multiplied in any order, each product "
     "exactly or in f32, and 1 / sqrt(d) itself so or by steps in f32), the difference and exp in base e, "
     "each "
     "rounded in f32; weights times 2^p_shift, their row sum without it, each sum of it rounded to rowsum, "
     "exact or from f32, weights before it not; registers rescaled in their own type (one of 14 bits is cut "
     "where its unit reads it); each part divided by its sum, then weighed by exp of its log-sum-exp less "
     "the "
     "largest, added from the first part on, and their sum by that of these weights; V's scale on a part's "
     "output or on the merged one; replay: bits",
     {},
     "replay: schedule!=none scores=f32 out=dtype"},
    kScheduleKey,
};

}  // namespace

std::span<const KeySpec> attention_attributes() { return kAttributes; }
std::span<const KeySpec> attention_contract() { return kContract; }

}  // namespace assay
