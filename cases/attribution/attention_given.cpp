// What only the case's own shape and data show. What it has besides is left out as far as it is still wrong;
// its data are then put into one product of q.k and one value of V at a time, so that a code that is read
// wrongly is told from a sum of right ones.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cases/attribution/attention_questions.hpp"
#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/models.hpp"

namespace assay::attribution {
namespace {

constexpr std::int64_t kF16Largest = 65504;  // where a sum of weights of 1 may end

// Of each sequence and KV head the place of the element of largest (or of smallest, but not zero) magnitude,
// as its key and its dimension.
struct Place {
  std::int64_t key = 0, column = 0;
};
// Of a row of K or V, in caches without pages.
std::int64_t head_of(const AttentionGeometry& g, std::int64_t row) {
  return row / g.kv_heads / g.length * g.kv_heads + row % g.kv_heads;
}
std::vector<Place> extremes(const TensorSet& set, const char* tensor, const AttentionGeometry& g,
                            std::int64_t width, bool largest) {
  const std::vector<double> x = decode_tensor(set.at(tensor));
  std::vector<Place> places(static_cast<std::size_t>(g.batch * g.kv_heads));
  std::vector<double> best(places.size(), largest ? 0 : INFINITY);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto head = static_cast<std::size_t>(head_of(g, at / width));
    const double size = std::isfinite(x[i]) ? std::fabs(x[i]) : INFINITY;
    if (size == 0 || !(largest ? size > best[head] : size < best[head])) continue;
    best[head] = size;
    places[head] = {at / width / g.kv_heads, at % width};
  }
  return places;
}

// Whether what is wrong is NaN where a number should be, in rows of which another column should be NaN.
bool a_nan_spreads(const Answer& answer) {
  if (answer.got.empty()) return false;  // it ended early
  const std::vector<double>&want = answer.truths[0].value, &got = answer.got[0];
  bool some = false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(got[i] - want[i]) <= answer.truths[0].limit[i] || std::isnan(want[i])) continue;
    if (!std::isnan(got[i])) return false;
    some = true;
  }
  return some && std::ranges::any_of(want, [](double x) { return std::isnan(x); });
}

}  // namespace

std::optional<std::vector<Change>> attention_simplified(Bench& bench, AttentionQuestions& questions,
                                                        Attribution& a) {
  const AttentionGeometry& g = questions.g;
  std::vector<Change> left_out;
  const auto without = [&](std::vector<Change> changes) {
    std::vector<Change> all = left_out;
    all.insert(all.end(), changes.begin(), changes.end());
    const Answer answer = bench.ask(all, Edit{});
    if (answer.ran && answer.bad) left_out = std::move(all);
    return answer.ran && !answer.bad;  // it is right without
  };
  const auto name = [&](const char* stage, const char* why) {
    a.stage = stage, a.support.emplace_back(why);
    return std::nullopt;
  };
  // What the case is right without may be what the fault is in, or what makes the numbers in which another
  // shows: the same numbers by q.k alone tell.
  const auto wrong = [&](std::vector<Change> changes, Logits logits) {
    const Answer answer = questions.ask(changes, logits, Rows::one_hot);
    return answer.ran && answer.bad;
  };
  const Change dense{"layout", "dense"}, no_sinks{"sinks", "no"}, no_slopes{"alibi", "no"},
      no_cap{"softcap", "0"};
  questions.at_own_shape({dense});
  if (g.sinks && without({no_sinks}) && wrong({no_slopes}, Logits::first) &&
      !wrong({no_slopes, no_sinks}, Logits::first))
    return name("sink", "sinks added to the case's own shape make it wrong");
  left_out.push_back(no_sinks);
  const bool right_without_slopes = g.alibi && without({no_slopes});
  if (right_without_slopes && wrong({no_sinks, no_cap}, Logits::equal) &&
      !wrong({no_sinks, no_cap, no_slopes}, Logits::as_slopes))
    return name("scale", "slopes are wrong at the case's own shape, the same logits by q.k are right");
  // Without slopes the sum of as many weights is larger still, and right.
  if (right_without_slopes && g.length > kF16Largest)
    return name("scale", "with as many keys the case is right without slopes");
  left_out.push_back(no_slopes);
  if (g.softcap > 0 && without({no_cap}) && wrong({no_sinks, no_slopes}, Logits::beyond_cap) &&
      !wrong({no_sinks, no_slopes, no_cap}, Logits::beyond_cap))
    return name("scale", "logits beyond the softcap are wrong, the same numbers by q.k are right");
  left_out.push_back(no_cap);
  if (g.length > kF16Largest && without({{"len", "60000"}}))
    return name(questions.split > 1 ? "merge" : "row_sum", "with 60000 keys the case is right");
  const auto& own = bench.the_case().attributes;
  const std::vector<std::vector<Change>> others = {{{"mask", "none"}, {"window", "0"}},
                                                   {{"lengths", "full"}},
                                                   {{"rotate", "none"}},
                                                   {{"page", "0"}},
                                                   {{"scale", "0"}}};
  for (const std::vector<Change>& other : others)
    if (own.text(other[0].first) != other[0].second) (void)without(other);
  return left_out;
}

bool attention_reads_others(Bench& bench, const AttentionGeometry& g) {
  const Answer& o = bench.original();
  if (g.batch * g.rows * g.heads < 2 || o.got.empty() || o.truths.empty()) return false;
  const std::int64_t row = worst_element(o) / g.dv, b = row / g.heads / g.rows,
                     head = row % g.heads / g.group();
  const Answer alike = bench.ask(
      std::vector<Change>{},
      FullEdit([&](const Case&, const TensorSet& set, const TensorSpec& t, std::vector<float>& x) {
        const std::vector<float> from = x;
        if (t.name == "q")
          for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = from[static_cast<std::size_t>(row * g.d + static_cast<std::int64_t>(i) % g.d)];
        if (t.name != "k" && t.name != "v") return;
        const std::int64_t width = t.name == "k" ? g.d : g.dv;
        const auto slot_of = [&](std::int64_t key) {
          if (g.page == 0) return b * g.length + key;
          std::int32_t page = 0;
          const std::int64_t entry = b * g.table_width() + key / g.page;
          std::memcpy(&page, set.at("page_table").planes.at(0).bytes.data() + 4 * entry, sizeof page);
          return std::int64_t{page} * g.page + key % g.page;
        };
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const std::int64_t key = key_of_row(g, set, at / width / g.kv_heads);
          x[i] = from[static_cast<std::size_t>((slot_of(key) * g.kv_heads + head) * width + at % width)];
        }
      }));
  if (!alike.ran || alike.got.empty()) return false;
  for (std::int64_t c = row * g.dv; c < (row + 1) * g.dv; ++c) {
    const auto i = static_cast<std::size_t>(c);
    if (!(std::fabs(alike.got[0][i] - alike.truths[0].value[i]) <= alike.truths[0].limit[i])) return false;
  }
  return true;
}

void attention_as_given(Bench& bench, const AttentionQuestions& questions,
                        const std::vector<Change>& left_out, Attribution& a) {
  const AttentionGeometry& g = questions.g;
  const auto kept = [&](const char* key) {
    return std::ranges::find(left_out, key, &Change::first) == left_out.end();
  };
  // Where every sequence has all keys, in order, one of them can be chosen.
  const bool in_order = (g.page == 0 || !kept("page")) && (!g.ragged || !kept("lengths")) &&
                        (g.mask == MaskKind::none || !kept("mask"));
  const auto name = [&](const char* stage, const char* why) { a.stage = stage, a.support.emplace_back(why); };
  const auto wrong = [](const Answer& answer) { return answer.ran && answer.bad; };
  const Answer scores = bench.ask(left_out, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                                    if (t.name == "v")
                                      for (std::size_t i = 0; i < x.size(); ++i)
                                        x[i] = static_cast<std::int64_t>(i) / g.dv / g.kv_heads % g.dv ==
                                               static_cast<std::int64_t>(i) % g.dv;
                                  }));
  if (wrong(scores) && scores.not_finite && bench.the_case().fault == "none") {
    // One key everywhere, that of the largest numbers: whatever a maximum is taken of, it is that.
    const Answer one = bench.ask(left_out, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                                   if (t.name != "k") return;
                                   const auto largest = std::ranges::max_element(
                                       x, {}, [](float each) { return std::fabs(each); });
                                   const auto from = (largest - x.begin()) / g.d * g.d;
                                   const std::vector<float> key(x.begin() + from, x.begin() + from + g.d);
                                   for (auto at = x.begin(); at != x.end(); at += g.d)
                                     std::ranges::copy(key, at);
                                 }));
    if (one.ran && !one.bad)
      return name(questions.split > 1 ? "merge" : "max",
                  "weights overflow; where all keys are one, none does");
  }
  if (g.dv > 1 && wrong(scores) && scores.worst > 100 && bench.the_case().fault == "none") {
    for (const bool largest : {true, false}) {
      if (!in_order || g.k_format == "f32") break;
      const Answer one = bench.ask(
          left_out,
          FullEdit([&](const Case&, const TensorSet& set, const TensorSpec& t, std::vector<float>& x) {
            if (t.name != "q") return;
            const auto places = extremes(set, "k", g, g.d, largest);
            for (std::size_t i = 0; i < x.size(); ++i) {
              const std::int64_t row = static_cast<std::int64_t>(i) / g.d;
              const std::int64_t head = row / g.heads / g.rows * g.kv_heads + row % g.heads / g.group();
              x[i] = static_cast<std::int64_t>(i) % g.d == places[static_cast<std::size_t>(head)].column
                         ? 1.0F
                         : 0.0F;
            }
          }));
      if (wrong(one))
        return name("codec", "q that takes one element of each key alone: the weights are wrong");
    }
    return name("qk",
                "q and K as given, V one-hot: the weights are wrong, by one element of K they are right");
  }
  const Answer sums = bench.ask(left_out, Edit([](const TensorSpec& t, std::vector<float>& x) {
                                  if (t.name == "q") std::fill(x.begin(), x.end(), 0.0F);
                                }));
  if (wrong(sums) && sums.worst > 2) {
    for (const bool largest : {true, false}) {
      if (!in_order || g.v_format == "f32") break;
      const Answer one = bench.ask(
          left_out,
          FullEdit([&](const Case&, const TensorSet& set, const TensorSpec& t, std::vector<float>& x) {
            const auto places = extremes(set, "v", g, g.dv, largest);
            for (std::size_t i = 0; i < x.size(); ++i) {
              const auto at = static_cast<std::int64_t>(i);
              if (t.name == "q") x[i] = at % g.d == 0 ? 8.0F : 0.0F;
              if (t.name != "k") continue;
              const auto head = static_cast<std::size_t>(head_of(g, at / g.d));
              const bool seen = at / g.d / g.kv_heads == places[head].key;
              x[i] = at % g.d == 0 && !seen ? static_cast<float>(-12 / g.scale) : 0.0F;
            }
          }));
      if (wrong(one) && a_nan_spreads(one))
        return name("output", "one key has all the weight: one NaN of its V fills the row");
      if (wrong(one)) return name("codec", "one key has all the weight: its V is wrong");
    }
    if (questions.split == 1 && (in_order || g.v_format == "f32"))
      return name("pv", "equal weights, V as given: the sums are wrong, one value is right");
  }
  a.against.emplace_back("no probe is wrong: what the case's own data have is not among them");
}

}  // namespace assay::attribution
