#include "cases/studies/identify/attention_steps.hpp"

#include <algorithm>
#include <array>

namespace assay {
namespace {

using List = AttentionSchedules;

// Each hypothesis with each value that `change` can set.
template <typename Values, typename Change>
List times(const List& list, const Values& values, const Change& change) {
  List all;
  for (const AttentionSchedule& s : list)
    for (const auto& value : values) {
      AttentionSchedule other = s;
      change(other, value);
      all.push_back(std::move(other));
    }
  return all;
}

constexpr std::array kNoYes = {false, true};

// Tiles of few keys that a block's warps, or parts of them, take in turn, each with a softmax of its own.
List dealt(const List& list) {
  List on_gpus;
  for (const AttentionSchedule& s : list)
    if (s.pv == "f32" && s.p == "f32" && s.argument == Argument::scaled &&
        (s.exp == Exponential::ex2 || s.exp == Exponential::exp2f || s.exp == Exponential::expf))
      on_gpus.push_back(s);
  List all = times(on_gpus, std::array{1, 2, 3, 4, 8, 16, 64}, [](AttentionSchedule& o, std::int64_t tile) {
    o.tile = tile, o.sums = RowSums::thread, o.sum_fma = o.deal_online = true;
  });
  all = times(all, std::array{ValueChain::chained, ValueChain::carried},
              [](AttentionSchedule& o, ValueChain values) { o.values = values; });
  return times(all, std::array{2, 4, 5, 8, 10, 16, 32},
               [](AttentionSchedule& o, std::int64_t deal) { o.deal = deal; });
}

struct Lanes {
  std::int64_t lanes, pack;
  const char* fold;
};
constexpr std::array kLanes = {
    Lanes{1, 1, "halving"},        Lanes{16, 1, "halving"},    Lanes{8, 1, "halving"},
    Lanes{4, 1, "halving"},        Lanes{32, 1, "halving"},    Lanes{64, 1, "halving"},
    Lanes{8, 1, "adjacent"},       Lanes{16, 1, "adjacent"},   Lanes{16, 1, "sequential"},
    Lanes{64, 1, "16.32.8.4.2.1"}, Lanes{32, 1, "8.16.4.2.1"}, Lanes{4, 2, "adjacent"}};

// What becomes of keys behind the last whole pass over the lanes, where a tile has such.
List with_tails(const AttentionSchedule& s, std::int64_t keys) {
  List list = {s};
  if (s.sums != RowSums::tile || s.lanes == 1 || s.pack > 1) return list;
  for (const std::int64_t width : {s.lanes, s.lanes / 2}) {
    if (keys % s.tile % width == 0 && s.tile % width == 0) continue;
    for (const SumTail tail : {SumTail::nearest, SumTail::after}) {
      AttentionSchedule other = s;
      other.tail = tail, other.tail_width = width == s.lanes ? 0 : width;
      list.push_back(other);
    }
  }
  return list;
}

// Whole, or in parts of whole tiles or of so many keys that are merged by their maxima.
List with_parts(const AttentionSchedule& s, std::int64_t keys) {
  List list = {s};
  constexpr std::int64_t kShortest = 32;  // keys of a part
  for (const std::int64_t split : {2, 3, 4, 8, 16}) {
    const std::int64_t part = (keys + split - 1) / split;
    if (s.deal > 1 || part < kShortest || s.tile > part) continue;
    AttentionSchedule other = s;
    other.split = split, other.part = part, other.merge = Merge::weights;
    list.push_back(other);
    if (part % s.tile == 0) continue;  // the same as parts of tiles
    other.part = 0;
    list.push_back(other);
  }
  return list;
}

struct ValueWay {
  ValueChain values;
  bool values_fma;
  std::int64_t promote;
  ValueStep step;
};
constexpr std::array kValueWays = {ValueWay{ValueChain::chained, true, 0, ValueStep::one},
                                   ValueWay{ValueChain::tile, false, 0, ValueStep::one},
                                   ValueWay{ValueChain::tile, true, 0, ValueStep::one},
                                   ValueWay{ValueChain::chained, true, 256, ValueStep::one},
                                   ValueWay{ValueChain::chained, true, 192, ValueStep::one},
                                   ValueWay{ValueChain::chained, true, 0, ValueStep::pair},
                                   ValueWay{ValueChain::chained, true, 256, ValueStep::pair},
                                   ValueWay{ValueChain::chained, true, 8, ValueStep::pair},
                                   ValueWay{ValueChain::chained, true, 0, ValueStep::eight}};

struct DotLanes {
  std::int64_t lanes;
  const char* fold = "halving";
  bool neighbours = false;  // a lane has d / lanes of them
  std::int64_t head = 0;
  bool pairs = false;
  std::int64_t rows = 1;  // keys served together; of those that are left every second one has `lanes`
};

}  // namespace

List exponential_steps(const AttentionHead& head) {
  AttentionSchedule s;
  s.qk = s.pv = "f32", s.p = "f32", s.out = head.out, s.argument = Argument::scaled;
  s.lanes = 1, s.pack = 1, s.sums = RowSums::tile, s.sum_fma = false, s.values = ValueChain::chained;
  List list =
      times(List{s},
            std::array{Exponential::libm, Exponential::taylor7, Exponential::taylor7_mul, Exponential::sleef,
                       Exponential::degree5, Exponential::degree3, Exponential::arm, Exponential::exp2f,
                       Exponential::ex2, Exponential::expf, Exponential::nearest},
            [](AttentionSchedule& o, Exponential e) { o.exp = e; });
  list = times(list,
               std::array{Argument::scaled, Argument::sub_mul, Argument::fma, Argument::mul_sub,
                          Argument::scaled_twice, Argument::scaled_fma, Argument::fma_max},
               [](AttentionSchedule& o, Argument a) { o.argument = a; });
  list = times(list, std::array{Quotient::reciprocal, Quotient::division, Quotient::approx},
               [](AttentionSchedule& o, Quotient q) { o.quotient = q; });
  list = times(list, kNoYes, [](AttentionSchedule& o, bool in_double) { o.constant_double = in_double; });
  list = times(list, std::array{"f32", "f16"}, [](AttentionSchedule& o, const char* pv) { o.pv = pv; });
  list = times(list, std::array{"f32", "f16", "bf16"}, [](AttentionSchedule& o, const char* p) { o.p = p; });
  for (AttentionSchedule& each : dealt(list)) list.push_back(std::move(each));
  return list;
}

List sum_steps(const List& exponents, std::int64_t keys) {
  std::vector<std::int64_t> tiles;
  for (const std::int64_t tile : {1, 16, 32, 64, 128, 256, 512, 4096})
    if (tiles.empty() || tiles.back() < keys) tiles.push_back(tile);
  List whole, all;
  for (const AttentionSchedule& s : exponents) (s.deal > 1 ? all : whole).push_back(s);
  for (const AttentionSchedule& s :
       times(whole, tiles, [](AttentionSchedule& o, std::int64_t tile) { o.tile = tile; })) {
    const bool one_tile = s.tile >= keys;
    for (const RowSums where : {RowSums::tile, RowSums::thread})
      for (const Lanes& l : kLanes) {
        if ((s.tile == 1 && l.lanes > 1) || (one_tile && where == RowSums::thread)) continue;
        AttentionSchedule other = s;
        other.sums = where, other.lanes = l.lanes, other.pack = l.pack, other.fold = l.fold;
        for (AttentionSchedule& each : with_tails(other, keys)) all.push_back(std::move(each));
      }
    for (const std::int64_t vector : {8, 16, 4}) {
      AttentionSchedule other = s;
      other.sums = RowSums::vectors, other.lanes = vector, other.pack = 1, other.fold = "halving";
      if (s.tile > vector) all.push_back(other);
    }
  }
  List rescaled, never;
  for (const AttentionSchedule& s : all) (s.tile < keys || s.deal > 1 ? rescaled : never).push_back(s);
  all = times(rescaled, kNoYes, [](AttentionSchedule& o, bool fma) { o.sum_fma = fma; });
  all = times(all, kNoYes, [](AttentionSchedule& o, bool libm) { o.rescale_libm = libm; });
  all.insert(all.end(), never.begin(), never.end());
  List in_parts;
  for (std::size_t parts = 0, more = 1; more > 0; ++parts) {  // few parts before many
    more = 0;
    for (const AttentionSchedule& s : all) {
      const List list = with_parts(s, keys);
      if (parts < list.size()) in_parts.push_back(list[parts]), ++more;
    }
  }
  return in_parts;
}

List sum_steps_in_parts(const List& exponents, const AttentionHead& head) {
  constexpr std::int64_t kPart = 256, kMostParts = 8, kColumns = 1024;  // of a block's groups together
  std::vector<std::int64_t> parts;
  if (kPart < head.keys) parts.push_back(kPart);
  for (std::int64_t split = kMostParts; split > 1; --split)
    if (const std::int64_t part = (head.keys + split - 1) / split; part > kPart) parts.push_back(part);
  List dealt;
  for (const AttentionSchedule& s : exponents)
    if (s.deal > 1 && s.deal_online) dealt.push_back(s);
  return times(dealt, parts, [&](AttentionSchedule& o, std::int64_t part) {
    o.part = part, o.split = (head.keys + part - 1) / part, o.merge = Merge::log2;
    o.merge_groups = std::max<std::int64_t>(1, kColumns / head.d);
  });
}

List value_steps(const List& sums, std::int64_t keys) {
  List all;
  for (const AttentionSchedule& s :
       times(sums, std::array{true, false}, [](AttentionSchedule& o, bool fma) { o.fma = fma; }))
    for (const ValueWay& way : kValueWays) {
      const bool plain = way.values == ValueChain::chained && way.promote == 0 && way.step == ValueStep::one;
      if (plain) all.push_back(s);
      const bool rescaled = s.tile < keys || way.values != ValueChain::tile;
      if (plain || s.deal > 1 || s.pv != "f32" || !rescaled || way.promote >= std::min(s.tile, keys) ||
          (way.promote > 0 && s.tile % way.promote != 0) || (way.step != ValueStep::one && !s.fma))
        continue;
      AttentionSchedule other = s;
      other.values = way.values, other.values_fma = way.values_fma;
      other.promote = way.promote, other.value_step = way.step;
      all.push_back(other);
    }
  return all;
}

List product_steps(const List& values, std::int64_t d) {
  // Vectors of 8 are halved once more, and their quarters added by neighbours.
  const List list = times(values,
                          std::array{DotLanes{1},
                                     DotLanes{4},
                                     DotLanes{8},
                                     DotLanes{16},
                                     DotLanes{32},
                                     DotLanes{64},
                                     DotLanes{128},
                                     DotLanes{2},
                                     DotLanes{256},
                                     DotLanes{8, "4.1.2"},
                                     DotLanes{16, "8.4.1.2"},
                                     DotLanes{32, "16.8.4.1.2"},
                                     DotLanes{64, "32.16.8.4.1.2"},
                                     DotLanes{4, "adjacent"},
                                     DotLanes{8, "adjacent"},
                                     DotLanes{2, "halving", true},
                                     DotLanes{4, "halving", true},
                                     DotLanes{8, "halving", true},
                                     DotLanes{16, "halving", true},
                                     DotLanes{32, "halving", true},
                                     DotLanes{16, "halving", false, 1},
                                     DotLanes{16, "halving", false, 1, false, 4},
                                     DotLanes{1, "halving", false, 0, true},
                                     DotLanes{16, "8.1.2.4", false, 0, true}},
                          [d](AttentionSchedule& o, const DotLanes& l) {
                            o.dot_lanes = l.lanes, o.dot_fold = l.fold, o.dot_head = l.head;
                            o.dot_refold = l.head > 0, o.dot_pairs = l.pairs;
                            if (l.rows > 1) {
                              o.dot_rows = l.rows, o.left_lanes = 2 * l.lanes, o.left_head = l.head;
                              o.left_second = o.left_folded = l.lanes;
                            }
                            if (l.pairs && l.lanes > 1) o.dot_pack = 2;
                            if (l.neighbours && d % l.lanes == 0) o.dot_pack = d / l.lanes;
                          });
  return times(list, std::array{"none", "f16", "bf16"}, [](AttentionSchedule& o, const char* q) { o.q = q; });
}

void take_exponential(AttentionSchedule& to, const AttentionSchedule& from) {
  to.argument = from.argument, to.quotient = from.quotient, to.constant_double = from.constant_double;
}
void take_values(AttentionSchedule& to, const AttentionSchedule& from) {
  to.fma = from.fma, to.values = from.values, to.values_fma = from.values_fma;
  to.promote = from.promote, to.value_step = from.value_step;
}
void take_products(AttentionSchedule& to, const AttentionSchedule& from) {
  to.dot_lanes = from.dot_lanes, to.dot_fold = from.dot_fold, to.dot_pack = from.dot_pack, to.q = from.q;
  to.dot_head = from.dot_head, to.dot_refold = from.dot_refold, to.dot_pairs = from.dot_pairs;
  to.dot_rows = from.dot_rows, to.left_lanes = from.left_lanes, to.left_fold = from.left_fold;
  to.left_vector = from.left_vector, to.left_second = from.left_second, to.left_folded = from.left_folded;
  to.left_head = from.left_head;
}

}  // namespace assay
