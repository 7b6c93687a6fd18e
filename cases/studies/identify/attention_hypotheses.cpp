#include "cases/studies/identify/attention_hypotheses.hpp"

#include <algorithm>
#include <sstream>

#include "cases/studies/identify/attention.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

std::vector<std::string> units_of(const std::string& format, const std::string& declared) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    const MatrixUnit* unit = find_matrix_unit(name);
    if (unit == nullptr || unit->out != "f32" || !accepts(*unit, format) || !unit->scales.empty()) return;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  std::istringstream words(declared);
  for (std::string word; words >> word;)
    if (word.starts_with("qk=") || word.starts_with("pv=")) add(word.substr(3));
  for (const char* family : {"hopper_", "a100_", "cdna3_"}) add(family + format);
  for (const MatrixUnit& unit : matrix_units()) add(std::string(unit.name));
  return names;
}

std::vector<std::int64_t> splits_of(std::int64_t tiles) {
  std::vector<std::int64_t> splits;
  for (std::int64_t s = 1; s <= std::min<std::int64_t>(tiles, 256); ++s)
    if (s == 1 || (tiles + s - 1) / s != (tiles + s - 2) / (s - 1)) splits.push_back(s);
  return splits;
}

std::vector<AttentionSchedule> fine(const AttentionSchedule& base) {
  struct Lanes {
    std::int64_t lanes, pack;
    const char* fold;
    std::int64_t warps = 1;
  };
  std::vector<AttentionSchedule> list;
  for (const Exponential exp : {Exponential::exp2f, Exponential::nearest})
    for (const RowSums sums : {RowSums::thread, RowSums::tile, RowSums::lane})
      for (const Lanes& lanes : {Lanes{4, 2, "halving"}, Lanes{4, 2, "adjacent"}, Lanes{1, 1, "halving"},
                                 Lanes{4, 2, "adjacent", 2}, Lanes{4, 2, "adjacent", 4}})
        for (const ValueChain values : {ValueChain::chained, ValueChain::tile})
          for (const Argument argument :
               {Argument::mul_sub, Argument::fma, Argument::fma_max, Argument::scaled, Argument::scaled_twice,
                Argument::scaled_fma, Argument::scaled_fma_max, Argument::sub_mul})
            for (const bool constant_double : {true, false})
              for (const bool fma : {true, false})
                for (const Quotient quotient : {Quotient::reciprocal, Quotient::division, Quotient::approx}) {
                  if (lanes.warps > 1 && (sums != RowSums::tile || base.tile % lanes.warps != 0)) continue;
                  AttentionSchedule s = base;
                  s.warps = lanes.warps;
                  s.exp = exp, s.sums = sums, s.lanes = lanes.lanes, s.pack = lanes.pack, s.fold = lanes.fold;
                  s.values = values, s.argument = argument, s.constant_double = constant_double;
                  s.sum_fma = fma, s.quotient = quotient;
                  list.push_back(s);
                }
  return list;
}

std::vector<AttentionSchedule> with_own_tiles(const std::vector<AttentionSchedule>& bases) {
  std::vector<AttentionSchedule> list = bases;
  for (const OwnTiles own : {OwnTiles::scaled, OwnTiles::scaled_twice})
    for (const std::int64_t rows : {64, 128, 32, 16, 256})
      for (AttentionSchedule s : bases) {
        if (!compares_arguments(s.argument)) continue;
        s.own = own, s.own_rows = rows;
        list.push_back(s);
      }
  return list;
}

std::vector<AttentionSchedule> others_of(const AttentionSchedule& found,
                                         std::vector<AttentionSchedule> hypotheses) {
  std::erase_if(hypotheses, [&](AttentionSchedule s) {
    if (s.own == found.own && s.own_rows == found.own_rows) return false;
    s.own = found.own, s.own_rows = found.own_rows;
    return !(s == found);
  });
  return hypotheses;
}

std::vector<std::pair<std::string, AttentionSchedule>> tampered(const AttentionSchedule& s,
                                                                const AttentionHead& head) {
  std::vector<std::pair<std::string, AttentionSchedule>> list;
  const auto add = [&](const char* field, auto change) {
    AttentionSchedule other = s;
    change(other);
    if (!(other == s)) list.emplace_back(field, other);
  };
  if (s.qk == "f32") {
    for (const std::int64_t lanes : {1, 2, 4, 8, 16, 32, 64})
      add("dot_lanes", [&](AttentionSchedule& o) { o.dot_lanes = lanes, o.dot_fold = "halving"; });
    if (s.dot_lanes > 2)
      add("dot_fold",
          [](AttentionSchedule& o) { o.dot_fold = o.dot_fold == "halving" ? "adjacent" : "halving"; });
    add("fma", [](AttentionSchedule& o) { o.fma = !o.fma; });
    add("pv", [](AttentionSchedule& o) { o.pv = o.pv == "f32" ? "f16" : "f32"; });
    for (const char* format : {"none", "f16", "bf16"}) add("q", [&](AttentionSchedule& o) { o.q = format; });
    for (const char* format : {"f32", "f16", "bf16"}) add("p", [&](AttentionSchedule& o) { o.p = format; });
    for (const Exponential e :
         {Exponential::libm, Exponential::taylor7, Exponential::taylor7_mul, Exponential::sleef,
          Exponential::degree5, Exponential::degree3, Exponential::arm})
      add("exp", [&](AttentionSchedule& o) { o.exp = e; });
    add("rescale_exp", [](AttentionSchedule& o) { o.rescale_libm = !o.rescale_libm; });
    if (s.values == ValueChain::tile)
      add("values_fma", [](AttentionSchedule& o) { o.values_fma = !o.values_fma; });
    if (s.dot_head > 0) add("dot_head", [](AttentionSchedule& o) { o.dot_head = 0; });
    if (s.dot_rows > 1) {
      add("dot_rows", [](AttentionSchedule& o) {
        o.dot_rows = o.left_lanes = 1, o.left_second = o.left_folded = o.left_head = o.left_vector = 0;
      });
      add("left_lanes", [](AttentionSchedule& o) { o.left_lanes *= 2, o.left_fold = "halving"; });
      add("left_head", [](AttentionSchedule& o) { o.left_head = o.left_head == 0 ? 1 : 0; });
      add("left_second", [](AttentionSchedule& o) { o.left_second = 0; });
      add("left_folded", [](AttentionSchedule& o) { o.left_folded = 0; });
      if (s.left_folded > 2) add("left_folded", [](AttentionSchedule& o) { o.left_folded /= 2; });
    }
    add("dot_tail", [](AttentionSchedule& o) { o.dot_refold = !o.dot_refold; });
    add("dot_step", [](AttentionSchedule& o) { o.dot_pairs = !o.dot_pairs; });
    for (const ValueStep step : {ValueStep::one, ValueStep::pair, ValueStep::eight})
      if (s.pv == "f32") add("value_step", [&](AttentionSchedule& o) { o.value_step = step; });
    for (const std::int64_t promote : {0, 8, 256})
      if (s.pv == "f32" && (promote == 0 || s.tile % promote == 0 || promote % s.tile == 0))
        add("promote", [&](AttentionSchedule& o) { o.promote = promote; });
    for (const SumTail tail : {SumTail::lanes, SumTail::after, SumTail::nearest})
      if (s.sums == RowSums::tile && s.warps == 1)
        add("tail", [&](AttentionSchedule& o) {
          o.tail = tail;
          if (tail == SumTail::lanes) o.tail_width = 0;
        });
    if (s.tail_width > 0) add("tail_width", [](AttentionSchedule& o) { o.tail_width = 0; });
    if (s.part > 0) add("part", [](AttentionSchedule& o) { o.part = 0; });
  } else {
    for (const std::string& unit : units_of(head.format, "")) {
      add("qk", [&](AttentionSchedule& o) { o.qk = unit; });
      add("pv", [&](AttentionSchedule& o) { o.pv = unit; });
    }
  }
  for (const std::int64_t tile : {std::int64_t{16}, std::int64_t{32}, std::int64_t{64}, std::int64_t{128},
                                  std::int64_t{256}, 2 * s.tile})
    if (tile % s.warps == 0 && tile <= 65536 &&
        (tile < head.keys || s.tile < head.keys || tile == 2 * s.tile))
      add("tile", [&](AttentionSchedule& o) { o.tile = tile; });
  for (const std::int64_t fused : {0, 4, 8})
    if (sums_in_a_unit(s.qk) && sums_in_a_unit(s.pv) && matrix_unit(s.qk).group > fused &&
        matrix_unit(s.pv).group > fused)
      add("fused", [&](AttentionSchedule& o) { o.fused = fused; });
  if (s.sums == RowSums::tile)
    for (const std::int64_t warps : {1, 2, 4})
      if (s.tile % warps == 0) add("warps", [&](AttentionSchedule& o) { o.warps = warps; });
  for (const OwnTiles own : {OwnTiles::same, OwnTiles::scaled, OwnTiles::scaled_twice})
    if (s.own != OwnTiles::same)
      add("own", [&](AttentionSchedule& o) {
        o.own = own;
        if (own == OwnTiles::same) o.own_rows = AttentionSchedule{}.own_rows;
      });
  for (const std::int64_t rows : {16, 32, 64, 128, 256})
    if (s.own != OwnTiles::same) add("own_rows", [&](AttentionSchedule& o) { o.own_rows = rows; });
  add("order", [](AttentionSchedule& o) { o.descending = !o.descending; });
  for (const Argument a :
       {Argument::fma, Argument::mul_sub, Argument::scaled, Argument::sub_mul, Argument::scaled_twice,
        Argument::scaled_fma, Argument::fma_max, Argument::scaled_fma_max})
    add("argument", [&](AttentionSchedule& o) { o.argument = a; });
  add("constant", [](AttentionSchedule& o) { o.constant_double = !o.constant_double; });
  for (const Exponential e : {Exponential::ex2, Exponential::exp2f, Exponential::nearest})
    add("exp", [&](AttentionSchedule& o) { o.exp = e; });
  add("rescale", [](AttentionSchedule& o) {
    o.rescale = o.rescale == Rescale::sub_mul ? Rescale::as_argument : Rescale::sub_mul;
  });
  for (const RowSums sums : {RowSums::thread, RowSums::tile, RowSums::lane})
    add("sums", [&](AttentionSchedule& o) { o.sums = sums; });
  add("sum_fma", [](AttentionSchedule& o) { o.sum_fma = !o.sum_fma; });
  add("lanes", [](AttentionSchedule& o) { o.lanes = o.lanes == 1 ? 4 : 1; });
  add("pack", [](AttentionSchedule& o) { o.pack = o.pack == 1 ? 2 : 1; });
  if (s.lanes > 1)
    add("fold", [&](AttentionSchedule& o) { o.fold = o.fold == "adjacent" ? "halving" : "adjacent"; });
  if (s.pv != "f16")
    add("values", [](AttentionSchedule& o) {
      o.values = o.values == ValueChain::chained ? ValueChain::tile : ValueChain::chained;
    });
  for (const Quotient q : {Quotient::reciprocal, Quotient::division, Quotient::approx})
    add("quotient", [&](AttentionSchedule& o) { o.quotient = q; });
  for (const std::int64_t split : splits_of((head.keys + s.tile - 1) / s.tile))
    if (split <= 2 * s.split) add("split", [&](AttentionSchedule& o) { o.split = split; });
  if (s.merge == Merge::log2)
    for (const Merge merge : {Merge::weights, Merge::lanes})
      add("merge", [&](AttentionSchedule& o) { o.merge = merge; });
  for (const std::int64_t deal : {s.deal / 2, s.deal * 2})
    if (s.deal > 1 && deal > 1 && deal <= 64) add("deal", [&](AttentionSchedule& o) { o.deal = deal; });
  return list;
}

}  // namespace assay
