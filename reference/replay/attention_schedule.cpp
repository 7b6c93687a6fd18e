#include "reference/replay/attention_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/error.hpp"
#include "reference/replay/fold.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    schedule_key("qk", "hopper_bf16", "a matrix unit, f32, f16", "of q.k"),
    schedule_key("pv", "hopper_bf16", "a matrix unit, f32, f16", "of the weighted values"),
    schedule_key("p", "bf16", "a format that pv takes", "to which weights are rounded"),
    schedule_key("out", "bf16", "f32|f16|bf16", "of the output"),
    schedule_key("tile", "64", "1..65536", "keys between two rescalings; a multiple of pv's block"),
    schedule_key("order", "ascending", "ascending|descending", "of the tiles"),
    schedule_key("argument", "fma",
                 "fma|mul_sub|scaled|sub_mul|scaled_twice|scaled_fma|fma_max|scaled_fma_max",
                 "operations of the exponent"),
    schedule_key("constant", "double", "float|double", "in which scale * log2 e is formed"),
    schedule_key("exp", "exp2f",
                 "ex2|exp2f|expf|nearest|libm|taylor7|taylor7_mul|sleef|degree5|arm|series9|degree3",
                 "the exponential"),
    schedule_key("rescale", "sub_mul", "sub_mul|as_argument", "operations of the old maximum's exponent"),
    schedule_key(
        "sums", "thread", "thread|tile|vectors|lane",
        "where the lanes of the row sum are folded: at the end, in each tile, as they come, or at the "
        "end of sums over each tile"),
    schedule_key("sum_fma", "yes", "no|yes", "rescaling and first addition are one rounding"),
    schedule_key("warps", "1", "1..64",
                 "ranges of a tile's keys with lanes of their own, added in turn; sums=tile"),
    schedule_key("lanes", "4", "1..65536", "partial sums of a row"),
    schedule_key("pack", "2", "1..65536", "neighbouring keys that one lane takes at a time"),
    schedule_key("fold", "halving", kFoldWords, "how the lanes are added"),
    schedule_key("values", "chained", "chained|tile|carried",
                 "where a chain of pv begins: at the output so far, at zero, or at the first product, with "
                 "the output so far"),
    schedule_key("quotient", "reciprocal", "reciprocal|division|approx", "o (1/l), o / l, o rcp(l)"),
    schedule_key("split", "1", "1..65536", "parts of consecutive tiles that are merged at the end"),
    schedule_key("merge_lanes", "32", "1..65536", "partial sums of the parts' exponentials, or sums"),
    schedule_key("merge_fold", "halving", kFoldWords, "how these are added"),
    schedule_key("merge", "logs", "logs|weights|lanes|log2", "how parts are merged",
                 "log2: exp=ex2|exp2f argument=scaled|scaled_twice|fma_max|scaled_fma_max p_shift=0"),
    schedule_key("part", "0", "0..16777216",
                 "keys of a part, whose tiles begin with it; 0: parts of whole tiles"),
    schedule_key("cut", "0", "0..16777216", "tiles begin anew at each multiple of so many keys; 0: at none",
                 "split=1/part!=0"),
    schedule_key("dot_lanes", "1", "1..65536", "qk=f32: partial sums of q.k"),
    schedule_key("dot_pack", "1", "1..256",
                 "qk=f32: neighbouring columns that one of dot_lanes takes at a time"),
    schedule_key("dot_block", "1", "1..256", "products of q.k that are summed exactly first",
                 "qk=f32 dot_lanes=1"),
    schedule_key("dot_fold", "halving", kFoldWords, "how these are added"),
    schedule_key("fma", "yes", "no|yes", "qk=f32, pv=f32: product and sum are one rounding"),
    schedule_key("values_fma", "yes", "no|yes",
                 "values=tile: rescaling and addition of a tile are one rounding"),
    schedule_key("rescale_exp", "same", "same|libm", "the exponential of the rescaling"),
    schedule_key("cap", "none", "none|libm|series9|cuda_tanhf", "the tanh of softcap", "argument=scaled"),
    schedule_key("bias", "none", "none|subtract", "alibi, a product and a difference", "argument=scaled"),
    schedule_key("sink", "none", "none|last|exp2f|own", "one more logit at the end",
                 "split=1/merge!=logs|log2; own: exp!=ex2|exp2f"),
    schedule_key("origin", "0", "0..65536",
                 "rows whose tiles begin where the first of them sees its first key; 0: at key 0"),
    schedule_key("origin_rows", "head", "head|group", "whose rows these are"),
    schedule_key("origin_at", "key", "key|tile",
                 "whether tiles begin at that key, or with the tile that has it"),
    schedule_key("closed", "no", "no|yes", "whether hidden keys take no place among the lanes"),
    schedule_key("merge_groups", "1", "1..65536", "merge=lanes, log2: partial sums of the output"),
    schedule_key("merge_exp", "same", "same|exp2f", "merge=lanes: the exponential of the parts' maxima"),
    schedule_key("deal", "1", "1..64", "to how many a part's tiles are dealt in turn"),
    schedule_key("deal_merge", "whole", "whole|online",
                 "how these are added: to the largest maximum, or to that so far"),
    schedule_key("slack", "0", "0..64",
                 "how far above its maximum a logit of a group's heads may be before it moves; 0: not at all",
                 "argument=scaled|fma_max closed=no origin=0 q!=e4m3fn"),
    schedule_key("slack_rows", "8", "1..64", "heads whose maxima move together"),
    schedule_key("edge", "same", "same|scaled", "the argument of tiles that are not whole", "slack!=0"),
    schedule_key("own", "same", "same|scaled|scaled_twice",
                 "the argument of tiles from the position of the first of own_rows rows on",
                 "slack=0 argument=scaled|scaled_twice|fma_max|scaled_fma_max"),
    schedule_key("own_rows", "64", "1..65536", "rows that are served at a time", "own!=same"),
    schedule_key("dot_run", "4", "4..64",
                 "columns of a run, of four of which an instruction of q.k takes four each", "qk!=f32|f16"),
    schedule_key("dot_rows", "1", "1..64", "neighbouring keys that are served together",
                 "qk=f32 dot_block=1"),
    schedule_key("left_lanes", "1", "1..65536", "partial sums of q.k of keys that are left behind those",
                 "dot_rows!=1"),
    schedule_key("left_fold", "halving", kFoldWords, "how these are added"),
    schedule_key("left_vector", "0", "0..65536",
                 "columns of a vector, of which whole ones behind the last pass over these sums go to the "
                 "first; 0: in turn"),
    schedule_key("left_second", "0", "0..65536", "left_lanes of every second of these keys; 0: the same",
                 "dot_rows!=1"),
    schedule_key(
        "left_folded", "0", "0..65536",
        "sums that a step of left_fold leaves, over which columns behind the last pass go on; 0: none",
        "left_vector=0"),
    schedule_key("left_head", "0", "0..65536",
                 "first products of these keys, whose sum is added to that of the others at the end",
                 "dot_rows!=1"),
    schedule_key("q", "none", "none|f16|bf16|e4m3fn|q8_0",
                 "to which q is rounded; e4m3fn: rows are scaled, q8_0: blocks",
                 "f16|bf16|q8_0: qk=f32|f16; e4m3fn: qk!=f32|f16 split=1/merge!=logs"),
    schedule_key("p_shift", "0", "0..16", "power of two that weights are multiplied by before p"),
    schedule_key("fused", "0", "0..64", "products of an instruction of the units; 0: all that they fuse",
                 "qk!=f32|f16 pv!=f32|f16"),
    schedule_key("kv_scale", "value", "value|head",
                 "where scales of K and V are applied: to each value, or to a head's logits and output",
                 "split=1/merge!=logs|log2"),
    schedule_key("unrotate", "none", "none|ascending|descending",
                 "stages of the transform of each output row: neighbours or halves first"),
    schedule_key("promote", "0", "0..16777216", "keys that a unit sums before they are added in f32; 0: all",
                 "pv!=f16"),
    schedule_key("dot_head", "0", "0..65536", "products that the first lane takes ahead of the others",
                 "qk=f32 dot_block=1"),
    schedule_key("dot_tail", "lanes", "lanes|refold",
                 "products behind the last whole pass go on over the lanes, or are folded with their sum",
                 "qk=f32 dot_block=1"),
    schedule_key("dot_step", "one", "one|pair", "pair: of two neighbours the second product first",
                 "qk=f32 dot_block=1"),
    schedule_key("tail", "lanes", "lanes|after|nearest",
                 "keys behind the last whole pass go on over the lanes, or are added at the end; "
                 "nearest: their e^x rounded once",
                 "sums=tile warps=1"),
    schedule_key("tail_width", "0", "0..65536", "keys of a pass for tail; 0: lanes times pack",
                 "tail!=lanes"),
    schedule_key("value_step", "one", "one|pair|eight", "how many neighbouring keys one step adds", "pv=f32"),
};
constexpr KeyTable kTable("attention schedule key", kKeys);
constexpr std::array<std::string_view, 3> kVectorFormats = {"f32", "f16", "bf16"};

// f(key, field) of every key, in the table's order. An enum's and a flag's values stand in the order of the
// key's words.
template <typename S, typename F>
void for_each_field(S& s, const F& f) {
  f("qk", s.qk), f("pv", s.pv), f("p", s.p), f("out", s.out), f("tile", s.tile), f("order", s.descending);
  f("argument", s.argument), f("constant", s.constant_double), f("exp", s.exp), f("rescale", s.rescale);
  f("sums", s.sums), f("sum_fma", s.sum_fma), f("warps", s.warps), f("lanes", s.lanes), f("pack", s.pack);
  f("fold", s.fold), f("values", s.values), f("quotient", s.quotient), f("split", s.split);
  f("merge_lanes", s.merge_lanes), f("merge_fold", s.merge_fold), f("merge", s.merge), f("part", s.part);
  f("cut", s.cut);
  f("dot_lanes", s.dot_lanes), f("dot_pack", s.dot_pack), f("dot_block", s.dot_block),
      f("dot_fold", s.dot_fold), f("fma", s.fma);
  f("values_fma", s.values_fma), f("rescale_exp", s.rescale_libm), f("cap", s.cap), f("bias", s.bias);
  f("sink", s.sink), f("origin", s.origin), f("origin_rows", s.origin_group);
  f("origin_at", s.origin_tile), f("closed", s.closed);
  f("merge_groups", s.merge_groups), f("merge_exp", s.merge_exp2f), f("deal", s.deal),
      f("deal_merge", s.deal_online), f("slack", s.slack);
  f("slack_rows", s.slack_rows), f("edge", s.edge_scaled), f("own", s.own), f("own_rows", s.own_rows),
      f("dot_run", s.dot_run), f("dot_rows", s.dot_rows);
  f("left_lanes", s.left_lanes), f("left_fold", s.left_fold), f("left_vector", s.left_vector);
  f("left_second", s.left_second), f("left_folded", s.left_folded), f("left_head", s.left_head), f("q", s.q);
  f("p_shift", s.p_shift), f("fused", s.fused), f("kv_scale", s.head_scales), f("unrotate", s.unrotate);
  f("promote", s.promote), f("dot_head", s.dot_head);
  f("dot_tail", s.dot_refold), f("dot_step", s.dot_pairs), f("tail", s.tail), f("tail_width", s.tail_width),
      f("value_step", s.value_step);
}

template <typename T>
std::string text_of(std::string_view key, const T& field) {
  if constexpr (std::is_same_v<T, std::string>)
    return field;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return std::to_string(field);
  else
    return std::string(listed_words(kTable.key(key).allowed).at(static_cast<std::size_t>(field)));
}

// Names of matrix units are looked up, folds are spelt canonically later, other texts are words.
std::string text_from(std::string_view key, std::string_view value) {
  if ((key == "qk" || key == "pv") && sums_in_a_unit(value)) return std::string(matrix_unit(value).name);
  return std::string(value);
}

// What the keys of keys that are left behind whole groups cannot say together.
void refuse_left(const AttentionSchedule& s) {
  const std::int64_t lanes = s.left_lanes, second = s.left_second > 0 ? s.left_second : lanes;
  if (s.left_second == lanes)
    kTable.refuse("left_second", std::to_string(lanes), "it is left_lanes; allowed: 0 says the same");
  if (s.left_vector > 0 && (lanes % s.left_vector != 0 || second % s.left_vector != 0))
    kTable.refuse("left_vector", std::to_string(s.left_vector),
                  fmt::format("allowed: what divides left_lanes={} and left_second={}", lanes, second));
  const Fold seconds = fold_of(s.left_fold, second);
  const bool whole = !left_of(fold_of(s.left_fold, lanes), lanes, s.left_folded).empty();
  const bool as_well = second == s.left_folded || !left_of(seconds, second, s.left_folded).empty();
  if (s.left_folded > 0 && (!whole || !as_well))
    kTable.refuse("left_folded", std::to_string(s.left_folded),
                  fmt::format("no step of left_fold={} leaves so many sums of {} and of {}", s.left_fold,
                              lanes, second));
}

// What units and counts cannot say together: `needs` of the table has what words cannot.
void refuse_units(const AttentionSchedule& s) {
  const auto refuse = [](std::string_view key, auto value, const std::string& why) {
    kTable.refuse(key, fmt::format("{}", value), why);
  };
  const auto takes = [&](std::string_view with, const std::string& unit, std::string_view key,
                         const std::string& value) {
    if (!accepts(matrix_unit(unit), value))
      refuse(key, value, fmt::format("{}={} takes {}", with, unit, matrix_unit(unit).inputs));
  };
  const bool unit_qk = sums_in_a_unit(s.qk), unit_pv = sums_in_a_unit(s.pv);
  const std::int64_t group = unit_pv ? matrix_unit(s.pv).group : 1;
  if (unit_pv) takes("pv", s.pv, "p", s.p);
  if (!unit_pv && std::ranges::find(kVectorFormats, s.p) == kVectorFormats.end())
    refuse("p", s.p, fmt::format("pv={} takes f32|f16|bf16", s.pv));
  if (s.tile % group != 0)
    refuse("tile", s.tile, fmt::format("pv={} adds blocks of {}; allowed: their multiples", s.pv, group));
  if (s.tile % s.warps != 0) refuse("warps", s.warps, fmt::format("allowed: what divides tile={}", s.tile));
  constexpr std::int64_t kMostParts = 65536;
  if (s.split * s.deal > kMostParts)
    refuse("deal", s.deal, fmt::format("with split={} more than {} parts", s.split, kMostParts));
  if (s.q == "e4m3fn") takes("qk", s.qk, "q", s.q);
  for (const std::string* unit : {&s.qk, &s.pv})
    if (s.fused != 0 && matrix_unit(*unit).group % s.fused != 0)
      refuse(
          "fused", s.fused,
          fmt::format("{} fuses {} products; allowed: what divides them", *unit, matrix_unit(*unit).group));
  if (s.promote > 0 && s.tile % s.promote != 0 && s.promote % s.tile != 0)
    refuse("promote", s.promote, fmt::format("allowed: what divides tile={}, and its multiples", s.tile));
  if (s.promote % group != 0)
    refuse("promote", s.promote,
           fmt::format("pv={} adds blocks of {}; allowed: their multiples", s.pv, group));
  if (unit_qk && s.dot_run % 4 != 0) refuse("dot_run", s.dot_run, "allowed: multiples of 4");
}

}  // namespace

bool sums_in_a_unit(std::string_view products) { return products != "f32" && products != "f16"; }

std::string_view to_string(Exponential e) {
  return listed_words(kTable.key("exp").allowed).at(static_cast<std::size_t>(e));
}

std::span<const KeySpec> attention_schedule_keys() { return kKeys; }

AttentionSchedule parse_attention_schedule(std::string_view text) {
  AttentionSchedule s;
  const std::vector<std::string> values = kTable.complete(kTable.pairs(text));
  std::size_t at = 0;
  for_each_field(s, [&]<typename T>(std::string_view key, T& field) {
    const std::string& value = values[at++];
    if constexpr (std::is_same_v<T, std::string>)
      field = text_from(key, value);
    else if constexpr (std::is_same_v<T, std::int64_t>)
      field = kTable.number(key, value);
    else
      field = static_cast<T>(kTable.word(key, value));
  });
  for (const auto& [fold, lanes] : {std::pair{&s.fold, s.lanes},
                                    {&s.dot_fold, s.dot_lanes},
                                    {&s.merge_fold, s.merge_lanes},
                                    {&s.left_fold, s.left_lanes}})
    *fold = to_string(fold_of(*fold, lanes), lanes);
  refuse_left(s);
  refuse_units(s);
  return s;
}

std::string spell_out(const AttentionSchedule& s) {
  std::string text;
  for_each_field(s, [&](std::string_view key, const auto& field) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, text_of(key, field));
  });
  return text;
}

std::string print_schedule(const AttentionSchedule& s) {
  constexpr std::array<std::string_view, 5> kAlways = {"qk", "pv", "p", "out", "tile"};
  std::string text;
  for_each_field(s, [&](std::string_view key, const auto& field) {
    const std::string value = text_of(key, field);
    if (value == kTable.key(key).fallback && std::ranges::find(kAlways, key) == kAlways.end()) return;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  });
  return text;
}

}  // namespace assay
