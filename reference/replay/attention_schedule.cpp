#include "reference/replay/attention_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <vector>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/replay/fold.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    AttentionScheduleKey{"qk", "hopper_bf16", "a matrix unit, f32, f16", "of q.k"},
    AttentionScheduleKey{"pv", "hopper_bf16", "a matrix unit, f32, f16", "of the weighted values"},
    AttentionScheduleKey{"p", "bf16", "a format that pv takes", "to which weights are rounded"},
    AttentionScheduleKey{"out", "bf16", "f32|f16|bf16", "of the output"},
    AttentionScheduleKey{"tile", "64", "1..65536", "keys between two rescalings; a multiple of pv's block"},
    AttentionScheduleKey{"order", "ascending", "ascending|descending", "of the tiles"},
    AttentionScheduleKey{"argument", "fma", "fma|mul_sub|scaled|sub_mul|scaled_twice|scaled_fma|fma_max",
                         "operations of the exponent"},
    AttentionScheduleKey{"constant", "double", "double|float", "in which scale * log2 e is formed"},
    AttentionScheduleKey{"exp", "exp2f",
                         "ex2|exp2f|expf|nearest|libm|taylor7|taylor7_mul|sleef|degree5|arm|series9",
                         "the exponential"},
    AttentionScheduleKey{"rescale", "sub_mul", "sub_mul|as_argument",
                         "operations of the old maximum's exponent"},
    AttentionScheduleKey{
        "sums", "thread", "thread|tile|vectors",
        "where the lanes of the row sum are folded: at the end, in each tile, or as they come"},
    AttentionScheduleKey{"sum_fma", "yes", "no|yes", "rescaling and first addition are one rounding"},
    AttentionScheduleKey{"warps", "1", "1..64",
                         "ranges of a tile's keys with lanes of their own, added in turn; sums=tile"},
    AttentionScheduleKey{"lanes", "4", "1..65536", "partial sums of a row"},
    AttentionScheduleKey{"pack", "2", "1..65536", "neighbouring keys that one lane takes at a time"},
    AttentionScheduleKey{"fold", "halving", kFoldWords, "how the lanes are added"},
    AttentionScheduleKey{"values", "chained", "chained|tile",
                         "where a chain of pv begins: at the output so far, or at zero"},
    AttentionScheduleKey{"quotient", "reciprocal", "reciprocal|division|approx", "o (1/l), o / l, o rcp(l)"},
    AttentionScheduleKey{"split", "1", "1..65536", "parts of consecutive tiles that are merged at the end"},
    AttentionScheduleKey{"merge_lanes", "32", "1..65536", "partial sums of the parts' exponentials, or sums"},
    AttentionScheduleKey{"merge_fold", "halving", kFoldWords, "how these are added"},
    AttentionScheduleKey{"merge", "logs", "logs|weights|lanes", "how parts are merged"},
    AttentionScheduleKey{"part", "0", "0..16777216",
                         "keys of a part, whose tiles begin with it; 0: parts of whole tiles"},
    AttentionScheduleKey{"dot_lanes", "1", "1..65536", "qk=f32: partial sums of q.k"},
    AttentionScheduleKey{"dot_block", "1", "1..256", "qk=f32: products of q.k that are summed exactly first"},
    AttentionScheduleKey{"dot_fold", "halving", kFoldWords, "how these are added"},
    AttentionScheduleKey{"fma", "yes", "no|yes", "qk=f32, pv=f32: product and sum are one rounding"},
    AttentionScheduleKey{"values_fma", "yes", "no|yes",
                         "values=tile: rescaling and addition of a tile are one rounding"},
    AttentionScheduleKey{"rescale_exp", "same", "same|libm", "the exponential of the rescaling"},
    AttentionScheduleKey{"cap", "none", "none|libm|series9", "argument=scaled: the tanh of softcap"},
    AttentionScheduleKey{"bias", "none", "none|subtract",
                         "argument=scaled: alibi, a product and a difference"},
    AttentionScheduleKey{"sink", "none", "none|last|exp2f|own",
                         "one more logit at the end; not with merge=logs"},
    AttentionScheduleKey{"origin", "0", "0..65536",
                         "rows whose tiles begin where the first of them sees its first key; 0: at key 0"},
    AttentionScheduleKey{"origin_rows", "head", "head|group", "whose rows these are"},
    AttentionScheduleKey{"closed", "no", "no|yes", "whether hidden keys take no place among the lanes"},
    AttentionScheduleKey{"merge_groups", "1", "1..65536", "merge=lanes: partial sums of the output"},
    AttentionScheduleKey{"merge_exp", "same", "same|exp2f",
                         "merge=lanes: the exponential of the parts' maxima"},
    AttentionScheduleKey{"deal", "1", "1..64", "to how many a part's tiles are dealt in turn"},
    AttentionScheduleKey{
        "slack", "0", "0..64",
        "how far above its maximum a logit of a group's heads may be before it moves; 0: not at all"},
    AttentionScheduleKey{"slack_rows", "8", "1..64", "heads whose maxima move together"},
    AttentionScheduleKey{"edge", "same", "same|scaled", "slack: the argument of tiles that are not whole"},
    AttentionScheduleKey{"dot_run", "4", "4..64",
                         "columns of a run, of four of which an instruction of q.k takes four each"},
    AttentionScheduleKey{"q", "none", "none|f16|bf16|e4m3fn|q8_0",
                         "to which q is rounded; e4m3fn: rows are scaled, q8_0: blocks"},
    AttentionScheduleKey{"p_shift", "0", "0..16", "power of two that weights are multiplied by before p"},
    AttentionScheduleKey{"fused", "0", "0..64",
                         "products of an instruction of the units; 0: all that they fuse"},
    AttentionScheduleKey{"promote", "0", "0..16777216",
                         "keys that a unit sums before they are added in f32; 0: all"},
};
constexpr std::array<std::string_view, 2> kNoYes = {"no", "yes"}, kOrders = {"ascending", "descending"},
                                          kConstants = {"float", "double"},
                                          kRescales = {"sub_mul", "as_argument"},
                                          kValues = {"chained", "tile"};
constexpr std::array<std::string_view, 3> kSums = {"thread", "tile", "vectors"};
constexpr std::array<std::string_view, 11> kExps = {"ex2",     "exp2f",   "expf",        "nearest",
                                                    "libm",    "taylor7", "taylor7_mul", "sleef",
                                                    "degree5", "arm",     "series9"};
constexpr std::array<std::string_view, 3> kMerges = {"logs", "weights", "lanes"},
                                          kCaps = {"none", "libm", "series9"};
constexpr std::array<std::string_view, 4> kSinks = {"none", "last", "exp2f", "own"};
constexpr std::array<std::string_view, 2> kBiases = {"none", "subtract"}, kOriginRows = {"head", "group"};
constexpr std::array<std::string_view, 5> kQueries = {"none", "f16", "bf16", "e4m3fn", "q8_0"};
constexpr std::array<std::string_view, 2> kRescaleExps = {"same", "libm"}, kMergeExps = {"same", "exp2f"},
                                          kEdges = {"same", "scaled"};
constexpr std::array<std::string_view, 3> kQuotients = {"reciprocal", "division", "approx"};
constexpr std::array<std::string_view, 3> kOuts = {"f32", "f16", "bf16"};
constexpr std::array<std::string_view, 7> kArguments = {"fma",          "mul_sub",    "scaled", "sub_mul",
                                                        "scaled_twice", "scaled_fma", "fma_max"};

[[noreturn]] void refuse(std::string_view key, std::string_view value) {
  std::string_view allowed;
  for (const AttentionScheduleKey& each : kKeys)
    if (each.name == key) allowed = each.allowed;
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("attention schedule: {}={}; allowed: {}", key, excerpt(value), allowed));
}

std::int64_t count(std::string_view key, std::string_view text, std::int64_t least = 1,
                   std::int64_t most = 65536) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    refuse(key, text);
  return value;
}

template <typename Words>
std::size_t word(std::string_view key, std::string_view text, const Words& words) {
  const auto at = std::find(words.begin(), words.end(), text);
  if (at == words.end()) refuse(key, text);
  return static_cast<std::size_t>(at - words.begin());
}

void set(AttentionSchedule& s, std::string_view key, std::string_view value) {
  if (key == "qk") s.qk = value == "f32" || value == "f16" ? value : matrix_unit(value).name;
  if (key == "pv") s.pv = value == "f32" || value == "f16" ? value : matrix_unit(value).name;
  if (key == "p") s.p = value;
  if (key == "out") s.out = kOuts[word(key, value, kOuts)];
  if (key == "tile") s.tile = count(key, value);
  if (key == "order") s.descending = word(key, value, kOrders) == 1;
  if (key == "argument") s.argument = static_cast<Argument>(word(key, value, kArguments));
  if (key == "constant") s.constant_double = word(key, value, kConstants) == 1;
  if (key == "exp") s.exp = static_cast<Exponential>(word(key, value, kExps));
  if (key == "rescale") s.rescale = static_cast<Rescale>(word(key, value, kRescales));
  if (key == "sums") s.sums = static_cast<RowSums>(word(key, value, kSums));
  if (key == "sum_fma") s.sum_fma = word(key, value, kNoYes) == 1;
  if (key == "warps") s.warps = count(key, value);
  if (key == "lanes") s.lanes = count(key, value);
  if (key == "pack") s.pack = count(key, value);
  if (key == "fold") s.fold = value;
  if (key == "values") s.values = static_cast<ValueChain>(word(key, value, kValues));
  if (key == "quotient") s.quotient = static_cast<Quotient>(word(key, value, kQuotients));
  if (key == "split") s.split = count(key, value);
  if (key == "merge_lanes") s.merge_lanes = count(key, value);
  if (key == "merge") s.merge = static_cast<Merge>(word(key, value, kMerges));
  if (key == "part") s.part = count(key, value, 0, 1 << 24);
  if (key == "dot_lanes") s.dot_lanes = count(key, value);
  if (key == "dot_block") s.dot_block = count(key, value, 1, 256);
  if (key == "dot_fold") s.dot_fold = value;
  if (key == "fma") s.fma = word(key, value, kNoYes) == 1;
  if (key == "values_fma") s.values_fma = word(key, value, kNoYes) == 1;
  if (key == "rescale_exp") s.rescale_libm = word(key, value, kRescaleExps) == 1;
  if (key == "cap") s.cap = static_cast<CapStep>(word(key, value, kCaps));
  if (key == "bias") s.bias = word(key, value, kBiases) == 1;
  if (key == "sink") s.sink = static_cast<SinkStep>(word(key, value, kSinks));
  if (key == "origin") s.origin = count(key, value, 0);
  if (key == "origin_rows") s.origin_group = word(key, value, kOriginRows) == 1;
  if (key == "closed") s.closed = word(key, value, kNoYes) == 1;
  if (key == "merge_fold") s.merge_fold = value;
  if (key == "merge_groups") s.merge_groups = count(key, value);
  if (key == "q") s.q = kQueries[word(key, value, kQueries)];
  if (key == "merge_exp") s.merge_exp2f = word(key, value, kMergeExps) == 1;
  if (key == "deal") s.deal = count(key, value, 1, 64);
  if (key == "slack") s.slack = count(key, value, 0, 64);
  if (key == "slack_rows") s.slack_rows = count(key, value, 1, 64);
  if (key == "edge") s.edge_scaled = word(key, value, kEdges) == 1;
  if (key == "dot_run") s.dot_run = count(key, value, 4, 64);
  if (key == "p_shift") s.p_shift = count(key, value, 0, 16);
  if (key == "fused") s.fused = count(key, value, 0, 64);
  if (key == "promote") s.promote = count(key, value, 0, 1 << 24);
}

template <typename Words, typename Value>
std::string_view name(const Words& words, Value value) {
  return words[static_cast<std::size_t>(value)];
}

}  // namespace

bool sums_in_a_unit(std::string_view products) { return products != "f32" && products != "f16"; }

std::string_view to_string(Exponential e) { return kExps[static_cast<std::size_t>(e)]; }

std::span<const AttentionScheduleKey> attention_schedule_keys() { return kKeys; }

AttentionSchedule parse_attention_schedule(std::string_view text) {
  AttentionSchedule schedule;
  std::set<std::string_view> given;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
    if (text.empty()) break;
    const std::string_view pair = text.substr(0, text.find_first_of(" \t\n"));
    text.remove_prefix(pair.size());
    const std::size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    if (std::none_of(kKeys.begin(), kKeys.end(),
                     [&](const AttentionScheduleKey& k) { return k.name == key; }))
      throw unknown_name("key of an attention schedule", key, names_of(kKeys));
    if (equals == std::string_view::npos || !given.insert(key).second)
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("attention schedule: {}; wanted: each key once, as key=value", excerpt(pair)));
    set(schedule, key, pair.substr(equals + 1));
  }
  schedule.fold = to_string(fold_of(schedule.fold, schedule.lanes), schedule.lanes);
  schedule.dot_fold = to_string(fold_of(schedule.dot_fold, schedule.dot_lanes), schedule.dot_lanes);
  schedule.merge_fold = to_string(fold_of(schedule.merge_fold, schedule.merge_lanes), schedule.merge_lanes);
  const bool vector_values = !sums_in_a_unit(schedule.pv);
  if (vector_values) {
    if (std::ranges::find(kOuts, schedule.p) == kOuts.end()) refuse("p", schedule.p);
  } else {
    const MatrixUnit& pv = matrix_unit(schedule.pv);
    if (!accepts(pv, schedule.p)) refuse("p", schedule.p);
    if (schedule.tile % pv.group != 0) refuse("tile", std::to_string(schedule.tile));
  }
  if (schedule.argument != Argument::scaled && schedule.cap != CapStep::none)
    refuse("cap", name(kCaps, schedule.cap));
  if (schedule.argument != Argument::scaled && schedule.bias) refuse("bias", "subtract");
  if (schedule.split > 1 && schedule.merge == Merge::logs && schedule.sink != SinkStep::none)
    refuse("sink", name(kSinks, schedule.sink));
  if (schedule.sink == SinkStep::own && !natural(schedule.exp)) refuse("sink", "own");
  if (schedule.dot_block > 1 && (schedule.qk != "f32" || schedule.dot_lanes > 1))
    refuse("dot_block", std::to_string(schedule.dot_block));
  const bool rounds_q = schedule.q == "f16" || schedule.q == "bf16" || schedule.q == "q8_0";
  if (rounds_q == sums_in_a_unit(schedule.qk) && schedule.q != "none") refuse("q", schedule.q);
  if (schedule.q == "e4m3fn" && !accepts(matrix_unit(schedule.qk), schedule.q)) refuse("q", schedule.q);
  for (const std::string* products : {&schedule.qk, &schedule.pv})
    if (schedule.fused != 0 &&
        (!sums_in_a_unit(*products) || matrix_unit(*products).group % schedule.fused != 0))
      refuse("fused", std::to_string(schedule.fused));
  // Logarithms of sums are formed with the scale alone.
  if (schedule.q == "e4m3fn" && schedule.split > 1 && schedule.merge == Merge::logs) refuse("q", schedule.q);
  const bool promotes = schedule.promote > 0;
  if (promotes &&
      (vector_values || (schedule.tile % schedule.promote != 0 && schedule.promote % schedule.tile != 0) ||
       schedule.promote % matrix_unit(schedule.pv).group != 0))
    refuse("promote", std::to_string(schedule.promote));
  // What maxima are compared with is formed so in these two alone, and rows with a scale of their own move alone.
  const bool compared = schedule.argument == Argument::scaled || schedule.argument == Argument::fma_max;
  if (schedule.slack > 0 && (!compared || schedule.closed || schedule.origin > 0 || schedule.q == "e4m3fn"))
    refuse("slack", std::to_string(schedule.slack));
  if (schedule.edge_scaled && schedule.slack == 0) refuse("edge", "scaled");
  if (schedule.dot_run != 4 && (schedule.dot_run % 4 != 0 || !sums_in_a_unit(schedule.qk)))
    refuse("dot_run", std::to_string(schedule.dot_run));
  if (schedule.tile % schedule.warps != 0) refuse("warps", std::to_string(schedule.warps));
  return schedule;
}

std::string print_schedule(const AttentionSchedule& s) {
  std::string text;
  const auto add = [&](std::string_view key, const auto& value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  };
  add("qk", s.qk), add("pv", s.pv), add("p", s.p), add("out", s.out), add("tile", s.tile);
  add("order", name(kOrders, s.descending)), add("argument", name(kArguments, s.argument));
  add("constant", name(kConstants, s.constant_double)), add("exp", name(kExps, s.exp));
  add("rescale", name(kRescales, s.rescale)), add("sums", name(kSums, s.sums)),
      add("sum_fma", name(kNoYes, s.sum_fma));
  add("warps", s.warps), add("lanes", s.lanes), add("pack", s.pack), add("fold", s.fold);
  add("values", name(kValues, s.values)), add("quotient", name(kQuotients, s.quotient));
  add("split", s.split), add("merge_lanes", s.merge_lanes), add("merge_fold", s.merge_fold),
      add("merge", name(kMerges, s.merge)), add("part", s.part);
  add("dot_lanes", s.dot_lanes), add("dot_block", s.dot_block), add("dot_fold", s.dot_fold),
      add("fma", name(kNoYes, s.fma)), add("values_fma", name(kNoYes, s.values_fma)),
      add("rescale_exp", name(kRescaleExps, s.rescale_libm));
  add("cap", name(kCaps, s.cap)), add("bias", name(kBiases, s.bias)), add("sink", name(kSinks, s.sink));
  add("origin", s.origin), add("origin_rows", name(kOriginRows, s.origin_group)),
      add("closed", name(kNoYes, s.closed)), add("merge_groups", s.merge_groups);
  add("merge_exp", name(kMergeExps, s.merge_exp2f)), add("deal", s.deal), add("slack", s.slack);
  add("slack_rows", s.slack_rows), add("edge", name(kEdges, s.edge_scaled)), add("dot_run", s.dot_run);
  add("q", s.q), add("p_shift", s.p_shift), add("fused", s.fused), add("promote", s.promote);
  return text;
}

}  // namespace assay
