#include "cases/studies/identify/attention_vector.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>

#include "cases/studies/identify/attention_regions.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

using List = std::vector<AttentionSchedule>;

// Heads of crafted calls, the one that refuted last in front.
class Evidence {
 public:
  void add(AttentionAnswer answer) {
    for (AttentionHead& head : answer.heads) {
      heads_.push_back(std::make_unique<AttentionHead>(std::move(head)));
      replayed_.push_back(std::make_unique<ReplayedHead>(*heads_.back()));
    }
  }
  bool empty() const { return heads_.empty(); }
  // Of each schedule the outputs of the first head that differs, or an estimate of their count; 0: every bit of all.
  std::vector<std::int64_t> unequal(std::span<const AttentionSchedule> list) {
    std::vector<std::int64_t> counts(list.size(), 0);
    std::vector<std::size_t> refuted_by(list.size(), 0);
    parallel_units(list.size(), [&](std::size_t at) {
      for (std::size_t i = 0; i < replayed_.size() && counts[at] == 0; ++i) {
        const std::int64_t rows = replayed_[i]->head().rows;
        // One row refutes most, and stands for all.
        if (rows > 1) counts[at] = rows * replayed_[i]->unequal(list[at], 1);
        if (counts[at] == 0) counts[at] = replayed_[i]->unequal(list[at]);
        refuted_by[at] = i;
      }
    });
    const auto last =
        std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count != 0; });
    if (last != counts.rend()) {
      const auto front =
          static_cast<std::ptrdiff_t>(refuted_by[static_cast<std::size_t>(counts.rend() - last) - 1]);
      std::rotate(replayed_.begin(), replayed_.begin() + front, replayed_.begin() + front + 1);
    }
    return counts;
  }

 private:
  std::vector<std::unique_ptr<AttentionHead>> heads_;
  std::vector<std::unique_ptr<ReplayedHead>> replayed_;
};

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

List exponentials(const AttentionHead& head) {
  AttentionSchedule s;
  s.qk = s.pv = "f32", s.p = "f32", s.out = head.out, s.argument = Argument::scaled;
  s.lanes = 1, s.pack = 1, s.sums = RowSums::tile, s.sum_fma = false, s.values = ValueChain::chained;
  List list = times(List{s},
                    std::array{Exponential::libm, Exponential::taylor7, Exponential::taylor7_mul,
                               Exponential::sleef, Exponential::degree5, Exponential::arm, Exponential::exp2f,
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

struct Lanes {
  std::int64_t lanes, pack;
  const char* fold;
};

List sums(const List& exponents, std::int64_t keys) {
  std::vector<std::int64_t> tiles;
  for (const std::int64_t tile : {1, 16, 32, 64, 128, 256, 512, 4096})
    if (tiles.empty() || tiles.back() < keys) tiles.push_back(tile);
  List whole, all;
  for (const AttentionSchedule& s : exponents) (s.deal > 1 ? all : whole).push_back(s);
  const List list = times(whole, tiles, [](AttentionSchedule& o, std::int64_t tile) { o.tile = tile; });
  for (const AttentionSchedule& s : list) {
    for (const RowSums where : {RowSums::tile, RowSums::thread})
      for (const Lanes& l :
           {Lanes{1, 1, "halving"}, Lanes{16, 1, "halving"}, Lanes{8, 1, "halving"}, Lanes{4, 1, "halving"},
            Lanes{32, 1, "halving"}, Lanes{64, 1, "halving"}, Lanes{8, 1, "adjacent"},
            Lanes{16, 1, "adjacent"}, Lanes{16, 1, "sequential"}, Lanes{64, 1, "16.32.8.4.2.1"},
            Lanes{32, 1, "8.16.4.2.1"}, Lanes{4, 2, "adjacent"}}) {
        if (s.tile == 1 && l.lanes > 1) continue;
        AttentionSchedule other = s;
        other.sums = where, other.lanes = l.lanes, other.pack = l.pack, other.fold = l.fold;
        all.push_back(other);
      }
    for (const std::int64_t vector : {8, 16, 4}) {
      AttentionSchedule other = s;
      other.sums = RowSums::vectors, other.lanes = vector, other.pack = 1, other.fold = "halving";
      if (s.tile > vector) all.push_back(other);
    }
  }
  all = times(all, kNoYes, [](AttentionSchedule& o, bool fma) { o.sum_fma = fma; });
  all = times(all, kNoYes, [](AttentionSchedule& o, bool fma) { o.fma = fma; });
  List with_values;
  for (const AttentionSchedule& s : all) {
    with_values.push_back(s);
    if (s.deal > 1) continue;
    for (const bool fma : kNoYes) {
      AttentionSchedule other = s;
      other.values = ValueChain::tile, other.values_fma = fma;
      if (other.pv == "f32") with_values.push_back(other);
    }
  }
  return times(with_values, kNoYes, [](AttentionSchedule& o, bool libm) { o.rescale_libm = libm; });
}

struct DotLanes {
  std::int64_t lanes;
  const char* fold = "halving";
  bool neighbours = false;  // a lane has d / lanes of them
};

List products(const List& sums, std::int64_t d) {
  // Vectors of 8 are halved once more, and their quarters added by neighbours.
  const List list = times(sums,
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
                                     DotLanes{32, "halving", true}},
                          [d](AttentionSchedule& o, const DotLanes& l) {
                            o.dot_lanes = l.lanes, o.dot_fold = l.fold;
                            if (l.neighbours && d % l.lanes == 0) o.dot_pack = d / l.lanes;
                          });
  return times(list, std::array{"none", "f16", "bf16"}, [](AttentionSchedule& o, const char* q) { o.q = q; });
}

// The first of all that `same` says are one.
template <typename Same>
List first_of_each(const List& list, const Same& same) {
  List firsts;
  for (const AttentionSchedule& s : list)
    if (std::ranges::none_of(firsts, [&](const AttentionSchedule& f) { return same(f, s); }))
      firsts.push_back(s);
  return firsts;
}

}  // namespace

VectorSearch search_vector_attention(const AttentionAsk& ask, const AttentionAnswer& first,
                                     const std::function<bool()>& over) {
  VectorSearch found;
  const AttentionHead& head = first.heads.front();
  found.nearest = exponentials(head).front();
  const auto stage = [&](const char* name, AttentionDesign design, const List& list) {
    // A pair of weights says little: so many rows of them that exponentials one unit in the last place apart are told apart.
    constexpr std::int64_t kPairs = 1024, kMostCalls = 64;
    const std::int64_t rows = static_cast<std::int64_t>(first.heads.size()) * head.rows;
    const std::int64_t calls =
        design == AttentionDesign::pairs ? std::clamp<std::int64_t>(kPairs / rows, 2, kMostCalls) : 4;
    Evidence evidence;
    if (design == AttentionDesign::drawn) evidence.add(first);
    for (std::uint64_t seed = 1;
         design != AttentionDesign::drawn && seed <= static_cast<std::uint64_t>(calls); ++seed)
      if (std::optional<AttentionAnswer> answer = ask(seed, design)) evidence.add(std::move(*answer));
    List left;
    if (evidence.empty()) {
      found.stage = std::string(name) + ", which cannot be asked of this call";
      return left;
    }
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    constexpr std::size_t kTogether = 64;
    for (std::size_t first_of = 0; first_of < list.size() && !over(); first_of += kTogether) {
      const auto together = std::span(list).subspan(first_of, std::min(kTogether, list.size() - first_of));
      const std::vector<std::int64_t> unequal = evidence.unequal(together);
      for (std::size_t i = 0; i < together.size(); ++i) {
        if (unequal[i] < least) least = unequal[i], found.nearest = together[i];
        if (unequal[i] == 0) left.push_back(together[i]);
      }
    }
    if (left.empty() && found.stage.empty()) found.stage = name;
    return left;
  };
  const List by_exponential = stage("the exponential, its argument or the quotient: rows with two weights",
                                    AttentionDesign::pairs, exponentials(head));
  if (by_exponential.empty()) return found;
  // What is one on all that was asked stays together: the first of each kind is held against the next stage's inputs.
  constexpr auto kSums = "how weights and weighted values are summed and rescaled: logits of one product";
  const auto same_products = [](const AttentionSchedule& a, const AttentionSchedule& b) {
    return a.pv == b.pv && a.p == b.p && a.exp == b.exp && a.deal == b.deal &&
           (a.deal == 1 || (a.tile == b.tile && a.values == b.values));
  };
  const List sums_of_each = stage(kSums, AttentionDesign::single_products,
                                  sums(first_of_each(by_exponential, same_products), head.keys));
  if (sums_of_each.empty()) return found;
  List by_sums;
  for (const AttentionSchedule& s : sums_of_each)
    for (const AttentionSchedule& e : by_exponential) {
      if (!same_products(s, e)) continue;
      AttentionSchedule other = s;
      other.argument = e.argument, other.quotient = e.quotient;
      other.constant_double = e.constant_double;
      by_sums.push_back(other);
    }
  constexpr auto kProducts = "the order in which q.k is summed: drawn inputs";
  const List of_each =
      stage(kProducts, AttentionDesign::drawn,
            products(first_of_each(by_sums,
                                   [&](const AttentionSchedule& a, const AttentionSchedule& b) {
                                     return a.fma == b.fma && same_products(a, b);
                                   }),
                     head.d));
  List all;
  for (const AttentionSchedule& product : of_each)
    for (AttentionSchedule s : by_sums) {
      if (s.fma != product.fma || !same_products(s, product)) continue;
      s.dot_lanes = product.dot_lanes, s.dot_fold = product.dot_fold, s.q = product.q;
      s.dot_pack = product.dot_pack;
      all.push_back(s);
    }
  if (!all.empty()) found.left = stage(kProducts, AttentionDesign::drawn, all);
  return found;
}

}  // namespace assay
