#include "cases/fills/fills.hpp"

#include "cases/fills/families.hpp"

namespace assay {
namespace {

using namespace fill_families;

// A probe of few values, or of equal rows, could be recognised by the kernel that is judged. An embedded one
// asks the same at drawn places among numbers like any others; suites that are made for a kernel have it in
// place of the bare one where they ask for all fills.
template <void (*kMake)(const FillRequest&, Values&)>
void among(const FillRequest& bare, Values& values) {
  FillRequest embedded = bare;
  embedded.embedded = true;
  kMake(embedded, values);
}
constexpr std::string_view kChannels =
    "the probe of that name among drawn channels, no two keys or rows alike";
constexpr std::string_view kRows =
    "the fill of that name in one of each two rows, drawn; the others gaussian";

// A row's `shows` is what a wrong kernel cannot hide under it. An op's own fill stands before a general one
// of its name.
constexpr Fill kFills[] = {
    {"needle", "attention",
     "key at +ln N with V = 1 only there: logit errors amplified by ln N, a dropped or moved key", needle},
    {"equal_onehot", "attention", "equal logits, V one-hot by key mod dv: each key's weight, counted exactly",
     equal_onehot},
    {"window_onehot", "attention", "V = 1 on 32 neighbouring keys only: a skipped, repeated or swapped tile",
     window_onehot},
    {"onehot_attention", "attention", "one key takes all the weight: the output is one row of V",
     onehot_attention},
    {"ramp", "attention", "logits rise with the key: the running maximum changes in every block (rescale)",
     attention_ramp},
    {"steps", "attention", "logits rise by 1/4 every 32 keys: a rescale that is left out where it is small",
     steps},
    {"descent", "attention", "logits fall with the key: a maximum that later blocks replace by their own",
     descent},
    {"low_logits", "attention",
     "all logits about -300: a maximum that starts at 0 or at -65504/2 is too high", low_logits},
    {"future", "attention",
     "the needle is the last visible key, stronger keys lie beyond it: mask off by one", future},
    {"constant", "attention", "equal logits, constant V: the output is that constant (row sum, padding keys)",
     equal_constant},
    {"cancel", "attention", "large products that cancel in q.k: width of the QK accumulator", cancel_qk},
    {"huge_logits", "attention",
     "|logit| about 1e4: 16-bit logits, overflow before the maximum is subtracted", huge_logits},
    {"ties", "attention", "two keys nearly tied at the top with different V: the last bits of a logit",
     near_ties},
    {"deep", "attention", "logits spread down to -500: underflow of weights", deep_logits},
    {"abyss", "attention",
     "logits of -40000, then -39000: below a maximum that starts at -65504/2, a rescale that must flush to 0",
     abyss},
    {"value_mean", "attention", "V with mean 0.5: truncation of an accumulator is biased, and shows",
     value_mean},
    {"distractors", "attention",
     "diffuse weights, V of one sign but at the needle: small terms that a sum of few bits loses",
     distractors},
    {"outlier", "attention", "four channels of K and q eight times larger: clipping, coarse scales",
     outlier_channels},
    {"subnormal", "attention", "V about 2^-20: flushed subnormals", subnormal_values},
    {"crowd", "attention",
     "one key of V 0 far above all others, which weigh less than 2^-10: weights in 8 bits that become 0",
     crowd},
    {"roll_call", "attention",
     "alike logits, each key alone in its channel among few: one lost key of thousands", roll_call_of_keys,
     keys_called},
    {"front_load", "attention", "the first key's V is most of the sum: bits that later additions lose",
     front_key},
    {"extreme", "attention", "V near +-60000: a 16-bit accumulator overflows", extreme_values},

    {"gaussian", "", "unit normal: the customary input, kept as the baseline", gaussian},
    {"trained", "",
     "the look of a trained model: small weights, positive gains, channels with a mean, one of them massive",
     trained},
    {"uniform", "", "uniform in [0.5, 1.5): biased accumulation adds up", uniform},
    {"integers", "", "small integers: exact in any width (not in WMMA of gfx1151), so only index errors show",
     integers},
    {"constant", "", "one value everywhere per row: variance 0, equal logits", constant},
    {"ramp", "", "rises along the row: maxima that keep changing, order of reduction", ramp},
    {"peaked", "", "one element at +ln n over noise: softmax with a clear winner", peaked},
    {"deep", "", "spread from 0 down to -500: exponentials that underflow", deep},
    {"outlier", "", "a few elements 64 times larger: scales and clipping", outlier},
    {"cancel", "", "large terms of both signs over small ones: cancellation", cancel},
    {"offset", "", "mean 100, deviation 1: one-pass variance loses its digits", offset},
    {"two_levels", "",
     "+-1 with a small step halfway: partial means that differ, a running variance's merges", two_levels},
    {"subnormal", "", "around the smallest normal of the tensor's format: flushing, double rounding",
     subnormal},
    {"extreme", "", "near the largest finite of the tensor's format: overflow, saturation", extreme},
    {"codes", "", "every finite code of a narrow format in turn: table errors", codes},
    {"ties", "", "half-way points between neighbouring codes and their f32 neighbours: rounding direction",
     ties},
    {"quotient_ties", "",
     "quotients by the row's own scale on code boundaries: division against a reciprocal", quotient_ties},
    {"output_ties", "",
     "half-way points of the output's format and their f32 neighbours, under scales that are powers of two: "
     "rounding direction of an encoder",
     output_ties},
    {"last_element", "", "each row's largest element is its last: a dropped tail", last_element},
    {"carrier", "",
     "one element carries its row; row after row it stands at another edge of a lane, vector or block: a "
     "partial "
     "sum that is lost",
     carrier},
    {"one_per_tile", "", "one element of each run of 64 is not zero: a skipped or repeated tile",
     one_per_tile},
    {"roll_call", "",
     "each place of a row or of k stands out in one row of 32 or 64, and alone in its run: one lost term",
     roll_call},
    {"front_load", "", "the first element is most of the sum: bits that later additions lose", front_load},
    {"negative_extreme", "",
     "close to the least finite of the format: a maximum that starts at 0, or too high", negative_extreme},
    {"sparse", "", "three of four runs of 64 elements are zero: zero blocks, 0/0 scales", sparse},
    {"wide", "", "runs of 32 elements around 2^-30, 1 and 2^30: a range that is narrower than declared",
     wide},
    {"ladder", "", "runs of 16 elements from 1 down to 2^-23: block scales below the smallest normal number",
     ladder},
    {"below_powers", "",
     "just below powers of two, from 2^-126 to 2^128: an exponent taken from a rounded number", below_powers},

    {"embedded_needle", "attention", kChannels, among<needle>, nullptr, "needle"},
    {"embedded_crowd", "attention", kChannels, among<crowd>, nullptr, "crowd"},
    {"embedded_equal_onehot", "attention", kChannels, among<equal_onehot>, nullptr, "equal_onehot"},
    {"embedded_window_onehot", "attention", kChannels, among<window_onehot>, nullptr, "window_onehot"},
    {"embedded_onehot_attention", "attention", kChannels, among<onehot_attention>, nullptr,
     "onehot_attention"},
    {"embedded_ramp", "attention", kChannels, among<attention_ramp>, nullptr, "ramp"},
    {"embedded_steps", "attention", kChannels, among<steps>, nullptr, "steps"},
    {"embedded_descent", "attention", kChannels, among<descent>, nullptr, "descent"},
    {"embedded_low_logits", "attention", kChannels, among<low_logits>, nullptr, "low_logits"},
    {"embedded_future", "attention", kChannels, among<future>, nullptr, "future"},
    {"embedded_constant", "attention", kChannels, among<equal_constant>, nullptr, "constant"},
    {"embedded_cancel", "attention", kChannels, among<cancel_qk>, nullptr, "cancel"},
    {"embedded_huge_logits", "attention", kChannels, among<huge_logits>, nullptr, "huge_logits"},
    {"embedded_ties", "attention", kChannels, among<near_ties>, nullptr, "ties"},
    {"embedded_deep", "attention", kChannels, among<deep_logits>, nullptr, "deep"},
    {"embedded_abyss", "attention", kChannels, among<abyss>, nullptr, "abyss"},
    {"embedded_distractors", "attention", kChannels, among<distractors>, nullptr, "distractors"},
    {"embedded_roll_call", "attention", kChannels, among<roll_call_of_keys>, keys_called, "roll_call"},
    {"embedded_front_load", "attention", kChannels, among<front_key>, nullptr, "front_load"},
    {"embedded_extreme", "attention", kChannels, among<extreme_values>, nullptr, "extreme"},
    {"embedded_constant", "", kRows, among<constant>, nullptr, "constant"},
    {"embedded_integers", "", kRows, among<integers>, nullptr, "integers"},
    {"embedded_two_levels", "", kRows, among<two_levels>, nullptr, "two_levels"},
    {"embedded_one_per_tile", "", kRows, among<one_per_tile>, nullptr, "one_per_tile"},
    {"embedded_below_powers", "", kRows, among<below_powers>, nullptr, "below_powers"},
    {"embedded_sparse", "", kRows, among<sparse>, nullptr, "sparse"},
};

}  // namespace

std::span<const Fill> fills() { return kFills; }

}  // namespace assay
