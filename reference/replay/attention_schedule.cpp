#include "reference/replay/attention_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/error.hpp"
#include "reference/replay/fold.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    ScheduleKey{"qk", "hopper_bf16", "a matrix unit, f32, f16", "of q.k"},
    ScheduleKey{"pv", "hopper_bf16", "a matrix unit, f32, f16", "of the weighted values"},
    ScheduleKey{"p", "bf16", "a format that pv takes", "to which weights are rounded"},
    ScheduleKey{"out", "bf16", "f32|f16|bf16", "of the output"},
    ScheduleKey{"tile", "64", "1..65536", "keys between two rescalings; a multiple of pv's block"},
    ScheduleKey{"order", "ascending", "ascending|descending", "of the tiles"},
    ScheduleKey{"argument", "fma",
                "fma|mul_sub|scaled|sub_mul|scaled_twice|scaled_fma|fma_max|scaled_fma_max",
                "operations of the exponent"},
    ScheduleKey{"constant", "double", "float|double", "in which scale * log2 e is formed"},
    ScheduleKey{"exp", "exp2f",
                "ex2|exp2f|expf|nearest|libm|taylor7|taylor7_mul|sleef|degree5|arm|series9|degree3",
                "the exponential"},
    ScheduleKey{"rescale", "sub_mul", "sub_mul|as_argument", "operations of the old maximum's exponent"},
    ScheduleKey{
        "sums", "thread", "thread|tile|vectors|lane",
        "where the lanes of the row sum are folded: at the end, in each tile, as they come, or at the "
        "end of sums over each tile"},
    ScheduleKey{"sum_fma", "yes", "no|yes", "rescaling and first addition are one rounding"},
    ScheduleKey{"warps", "1", "1..64",
                "ranges of a tile's keys with lanes of their own, added in turn; sums=tile"},
    ScheduleKey{"lanes", "4", "1..65536", "partial sums of a row"},
    ScheduleKey{"pack", "2", "1..65536", "neighbouring keys that one lane takes at a time"},
    ScheduleKey{"fold", "halving", kFoldWords, "how the lanes are added"},
    ScheduleKey{"values", "chained", "chained|tile|carried",
                "where a chain of pv begins: at the output so far, at zero, or at the first product, with "
                "the output so far"},
    ScheduleKey{"quotient", "reciprocal", "reciprocal|division|approx", "o (1/l), o / l, o rcp(l)"},
    ScheduleKey{"split", "1", "1..65536", "parts of consecutive tiles that are merged at the end"},
    ScheduleKey{"merge_lanes", "32", "1..65536", "partial sums of the parts' exponentials, or sums"},
    ScheduleKey{"merge_fold", "halving", kFoldWords, "how these are added"},
    ScheduleKey{"merge", "logs", "logs|weights|lanes|log2", "how parts are merged"},
    ScheduleKey{"part", "0", "0..16777216",
                "keys of a part, whose tiles begin with it; 0: parts of whole tiles"},
    ScheduleKey{"cut", "0", "0..16777216", "tiles begin anew at each multiple of so many keys; 0: at none"},
    ScheduleKey{"dot_lanes", "1", "1..65536", "qk=f32: partial sums of q.k"},
    ScheduleKey{"dot_pack", "1", "1..256",
                "qk=f32: neighbouring columns that one of dot_lanes takes at a time"},
    ScheduleKey{"dot_block", "1", "1..256", "qk=f32: products of q.k that are summed exactly first"},
    ScheduleKey{"dot_fold", "halving", kFoldWords, "how these are added"},
    ScheduleKey{"fma", "yes", "no|yes", "qk=f32, pv=f32: product and sum are one rounding"},
    ScheduleKey{"values_fma", "yes", "no|yes",
                "values=tile: rescaling and addition of a tile are one rounding"},
    ScheduleKey{"rescale_exp", "same", "same|libm", "the exponential of the rescaling"},
    ScheduleKey{"cap", "none", "none|libm|series9|cuda_tanhf", "argument=scaled: the tanh of softcap"},
    ScheduleKey{"bias", "none", "none|subtract", "argument=scaled: alibi, a product and a difference"},
    ScheduleKey{"sink", "none", "none|last|exp2f|own",
                "one more logit at the end; not with merge=logs or log2"},
    ScheduleKey{"origin", "0", "0..65536",
                "rows whose tiles begin where the first of them sees its first key; 0: at key 0"},
    ScheduleKey{"origin_rows", "head", "head|group", "whose rows these are"},
    ScheduleKey{"origin_at", "key", "key|tile",
                "whether tiles begin at that key, or with the tile that has it"},
    ScheduleKey{"closed", "no", "no|yes", "whether hidden keys take no place among the lanes"},
    ScheduleKey{"merge_groups", "1", "1..65536", "merge=lanes, log2: partial sums of the output"},
    ScheduleKey{"merge_exp", "same", "same|exp2f", "merge=lanes: the exponential of the parts' maxima"},
    ScheduleKey{"deal", "1", "1..64", "to how many a part's tiles are dealt in turn"},
    ScheduleKey{"deal_merge", "whole", "whole|online",
                "how these are added: to the largest maximum, or to that so far"},
    ScheduleKey{"slack", "0", "0..64",
                "how far above its maximum a logit of a group's heads may be before it moves; 0: not at all"},
    ScheduleKey{"slack_rows", "8", "1..64", "heads whose maxima move together"},
    ScheduleKey{"edge", "same", "same|scaled", "slack: the argument of tiles that are not whole"},
    ScheduleKey{"own", "same", "same|scaled|scaled_twice",
                "the argument of tiles from the position of the first of own_rows rows on"},
    ScheduleKey{"own_rows", "64", "1..65536", "own: rows that are served at a time"},
    ScheduleKey{"dot_run", "4", "4..64",
                "columns of a run, of four of which an instruction of q.k takes four each"},
    ScheduleKey{"dot_rows", "1", "1..64", "qk=f32: neighbouring keys that are served together"},
    ScheduleKey{"left_lanes", "1", "1..65536", "partial sums of q.k of keys that are left behind those"},
    ScheduleKey{"left_fold", "halving", kFoldWords, "how these are added"},
    ScheduleKey{"left_vector", "0", "0..65536",
                "columns of a vector, of which whole ones behind the last pass over these sums go to the "
                "first; 0: in turn"},
    ScheduleKey{"left_second", "0", "0..65536", "left_lanes of every second of these keys; 0: the same"},
    ScheduleKey{
        "left_folded", "0", "0..65536",
        "sums that a step of left_fold leaves, over which columns behind the last pass go on; 0: none"},
    ScheduleKey{"left_head", "0", "0..65536",
                "first products of these keys, whose sum is added to that of the others at the end"},
    ScheduleKey{"q", "none", "none|f16|bf16|e4m3fn|q8_0",
                "to which q is rounded; e4m3fn: rows are scaled, q8_0: blocks"},
    ScheduleKey{"p_shift", "0", "0..16", "power of two that weights are multiplied by before p"},
    ScheduleKey{"fused", "0", "0..64", "products of an instruction of the units; 0: all that they fuse"},
    ScheduleKey{"kv_scale", "value", "value|head",
                "where scales of K and V are applied: to each value, or to a head's logits and output"},
    ScheduleKey{"unrotate", "none", "none|ascending|descending",
                "stages of the transform of each output row: neighbours or halves first"},
    ScheduleKey{"promote", "0", "0..16777216", "keys that a unit sums before they are added in f32; 0: all"},
    ScheduleKey{"dot_head", "0", "0..65536",
                "qk=f32: products that the first lane takes ahead of the others"},
    ScheduleKey{
        "dot_tail", "lanes", "lanes|refold",
        "qk=f32: products behind the last whole pass go on over the lanes, or are folded with their sum"},
    ScheduleKey{"dot_step", "one", "one|pair", "qk=f32: pair: of two neighbours the second product first"},
    ScheduleKey{"tail", "lanes", "lanes|after|nearest",
                "sums=tile: keys behind the last whole pass go on over the lanes, or are added at the end; "
                "nearest: their e^x rounded once"},
    ScheduleKey{"tail_width", "0", "0..65536", "keys of a pass for tail; 0: lanes times pack"},
    ScheduleKey{"value_step", "one", "one|pair|eight", "pv=f32: how many neighbouring keys one step adds"},
};
constexpr ScheduleGrammar kGrammar("attention schedule", kKeys);
constexpr std::array<std::string_view, 3> kVectorFormats = {"f32", "f16", "bf16"};

// f(key, field) of every key, in the table's order. An enum's and a flag's values stand in the order of the key's words.
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
    return std::string(word_at(kGrammar.key(key).allowed, static_cast<std::size_t>(field)));
}

// Names of arithmetic are looked up, folds are spelt canonically later, other texts are words.
std::string text_from(std::string_view key, std::string_view value) {
  if (key == "p" || key.ends_with("fold")) return std::string(value);
  const bool vectors = value == "f32" || value == "f16";
  if (key == "qk" || key == "pv") return std::string(vectors ? value : matrix_unit(value).name);
  kGrammar.word(key, value);
  return std::string(value);
}

void set(AttentionSchedule& s, std::string_view key, std::string_view value) {
  for_each_field(s, [&]<typename T>(std::string_view name, T& field) {
    if (name != key) return;
    if constexpr (std::is_same_v<T, std::string>)
      field = text_from(key, value);
    else if constexpr (std::is_same_v<T, std::int64_t>)
      field = kGrammar.number(key, value);
    else
      field = static_cast<T>(kGrammar.word(key, value));
  });
}

// What the words of keys that are left behind whole groups cannot say together.
void refuse_left(const AttentionSchedule& s) {
  const auto refuse_if = [](bool bad, std::string_view key, std::int64_t value) {
    if (bad) kGrammar.refuse(key, std::to_string(value));
  };
  const bool none = s.dot_rows == 1;
  refuse_if(none && s.left_lanes > 1, "left_lanes", s.left_lanes);
  refuse_if(none && s.left_head > 0, "left_head", s.left_head);
  refuse_if((none && s.left_second > 0) || s.left_second == s.left_lanes, "left_second", s.left_second);
  const std::int64_t second = s.left_second > 0 ? s.left_second : s.left_lanes;
  refuse_if(s.left_vector > 0 && (s.left_lanes % s.left_vector != 0 || second % s.left_vector != 0),
            "left_vector", s.left_vector);
  const Fold seconds = fold_of(s.left_fold, second);
  const bool whole = !left_of(fold_of(s.left_fold, s.left_lanes), s.left_lanes, s.left_folded).empty();
  const bool as_well = second == s.left_folded || !left_of(seconds, second, s.left_folded).empty();
  refuse_if(s.left_folded > 0 && (!whole || !as_well || s.left_vector > 0), "left_folded", s.left_folded);
}

}  // namespace

bool sums_in_a_unit(std::string_view products) { return products != "f32" && products != "f16"; }

std::string_view to_string(Exponential e) {
  return word_at(kGrammar.key("exp").allowed, static_cast<std::size_t>(e));
}

std::span<const ScheduleKey> attention_schedule_keys() { return kKeys; }

AttentionSchedule parse_attention_schedule(std::string_view text) {
  AttentionSchedule schedule;
  for (const auto& [key, value] : kGrammar.pairs(text, "")) set(schedule, key, value);
  schedule.fold = to_string(fold_of(schedule.fold, schedule.lanes), schedule.lanes);
  schedule.dot_fold = to_string(fold_of(schedule.dot_fold, schedule.dot_lanes), schedule.dot_lanes);
  schedule.merge_fold = to_string(fold_of(schedule.merge_fold, schedule.merge_lanes), schedule.merge_lanes);
  schedule.left_fold = to_string(fold_of(schedule.left_fold, schedule.left_lanes), schedule.left_lanes);
  if (schedule.dot_rows > 1 && (schedule.qk != "f32" || schedule.dot_block > 1))
    kGrammar.refuse("dot_rows", std::to_string(schedule.dot_rows));
  refuse_left(schedule);
  const bool vector_values = !sums_in_a_unit(schedule.pv);
  if (vector_values) {
    if (std::ranges::find(kVectorFormats, schedule.p) == kVectorFormats.end())
      kGrammar.refuse("p", schedule.p);
  } else {
    const MatrixUnit& pv = matrix_unit(schedule.pv);
    if (!accepts(pv, schedule.p)) kGrammar.refuse("p", schedule.p);
    if (schedule.tile % pv.group != 0) kGrammar.refuse("tile", std::to_string(schedule.tile));
  }
  if (schedule.argument != Argument::scaled && schedule.cap != CapStep::none)
    kGrammar.refuse("cap", text_of("cap", schedule.cap));
  if (schedule.argument != Argument::scaled && schedule.bias) kGrammar.refuse("bias", "subtract");
  const bool by_logs = schedule.merge == Merge::logs || schedule.merge == Merge::log2;
  if (schedule.split > 1 && by_logs && schedule.sink != SinkStep::none)
    kGrammar.refuse("sink", text_of("sink", schedule.sink));
  // Maxima are to base two where the arguments of such an exponential are themselves compared.
  const bool to_base_two = !natural(schedule.exp) && compares_arguments(schedule.argument);
  if (schedule.merge == Merge::log2 && (!to_base_two || schedule.p_shift > 0))
    kGrammar.refuse("merge", "log2");
  if (schedule.sink == SinkStep::own && !natural(schedule.exp)) kGrammar.refuse("sink", "own");
  if (schedule.dot_block > 1 && (schedule.qk != "f32" || schedule.dot_lanes > 1))
    kGrammar.refuse("dot_block", std::to_string(schedule.dot_block));
  constexpr std::int64_t kMostParts = 65536;
  if (schedule.split * schedule.deal > kMostParts) kGrammar.refuse("deal", std::to_string(schedule.deal));
  if (schedule.cut > 0 && schedule.split > 1 && schedule.part == 0)
    kGrammar.refuse("cut", std::to_string(schedule.cut));
  const bool rounds_q = schedule.q == "f16" || schedule.q == "bf16" || schedule.q == "q8_0";
  if (rounds_q == sums_in_a_unit(schedule.qk) && schedule.q != "none") kGrammar.refuse("q", schedule.q);
  if (schedule.q == "e4m3fn" && !accepts(matrix_unit(schedule.qk), schedule.q))
    kGrammar.refuse("q", schedule.q);
  for (const std::string* products : {&schedule.qk, &schedule.pv})
    if (schedule.fused != 0 &&
        (!sums_in_a_unit(*products) || matrix_unit(*products).group % schedule.fused != 0))
      kGrammar.refuse("fused", std::to_string(schedule.fused));
  // Logarithms of sums are formed with the scale alone, and stored outputs are then final.
  if (schedule.q == "e4m3fn" && schedule.split > 1 && schedule.merge == Merge::logs)
    kGrammar.refuse("q", schedule.q);
  if (schedule.head_scales && schedule.split > 1 && by_logs) kGrammar.refuse("kv_scale", "head");
  const bool promotes = schedule.promote > 0;
  if (promotes && (schedule.pv == "f16" ||
                   (schedule.tile % schedule.promote != 0 && schedule.promote % schedule.tile != 0) ||
                   (!vector_values && schedule.promote % matrix_unit(schedule.pv).group != 0)))
    kGrammar.refuse("promote", std::to_string(schedule.promote));
  if (schedule.pv != "f32" && schedule.value_step != ValueStep::one)
    kGrammar.refuse("value_step", text_of("value_step", schedule.value_step));
  if ((schedule.sums != RowSums::tile || schedule.warps > 1) && schedule.tail != SumTail::lanes)
    kGrammar.refuse("tail", text_of("tail", schedule.tail));
  if (schedule.tail == SumTail::lanes && schedule.tail_width > 0)
    kGrammar.refuse("tail_width", std::to_string(schedule.tail_width));
  const bool plain_dot = schedule.qk == "f32" && schedule.dot_block == 1;
  if (!plain_dot && schedule.dot_head > 0) kGrammar.refuse("dot_head", std::to_string(schedule.dot_head));
  if (!plain_dot && schedule.dot_refold) kGrammar.refuse("dot_tail", "refold");
  if (!plain_dot && schedule.dot_pairs) kGrammar.refuse("dot_step", "pair");
  // What maxima are compared with is formed so in these two alone, and rows with a scale of their own move alone.
  const bool compared = schedule.argument == Argument::scaled || schedule.argument == Argument::fma_max;
  if (schedule.slack > 0 && (!compared || schedule.closed || schedule.origin > 0 || schedule.q == "e4m3fn"))
    kGrammar.refuse("slack", std::to_string(schedule.slack));
  if (schedule.edge_scaled && schedule.slack == 0) kGrammar.refuse("edge", "scaled");
  if (schedule.own != OwnTiles::same && (schedule.slack > 0 || !compares_arguments(schedule.argument)))
    kGrammar.refuse("own", text_of("own", schedule.own));
  if (schedule.own == OwnTiles::same && schedule.own_rows != 64)
    kGrammar.refuse("own_rows", std::to_string(schedule.own_rows));
  if (schedule.dot_run != 4 && (schedule.dot_run % 4 != 0 || !sums_in_a_unit(schedule.qk)))
    kGrammar.refuse("dot_run", std::to_string(schedule.dot_run));
  if (schedule.tile % schedule.warps != 0) kGrammar.refuse("warps", std::to_string(schedule.warps));
  return schedule;
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
    if (value == kGrammar.key(key).fallback && std::ranges::find(kAlways, key) == kAlways.end()) return;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  });
  return text;
}

}  // namespace assay
