#include "reference/replay/attention_weights.hpp"

#include <algorithm>
#include <cmath>

#include "reference/replay/attention_row.hpp"
#include "reference/replay/rounding.hpp"

namespace assay {
namespace {

class Weighing {
 public:
  Weighing(const AttentionSchedule& how, const ReplayQueries& queries, std::int64_t keys, std::int64_t first,
           std::int64_t rows, std::size_t tiles, std::size_t parts, std::vector<float>& s)
      : how_(how), queries_(queries), keys_(keys), first_(first), tiles_(tiles), s_(s) {
    block.rescale.resize(static_cast<std::size_t>(rows) * tiles);
    block.tops.resize(parts * static_cast<std::size_t>(rows));
    block.sums.resize(block.tops.size());
  }

  std::span<float> tile(std::int64_t i, const Tile& t) const {
    return {s_.data() + i * keys_ + t.from, static_cast<std::size_t>(t.to - t.from)};
  }
  bool sees(std::int64_t i, std::int64_t j) const {
    return !queries_.visible || queries_.visible(queries_.heads ? 0 : first_ + i, j);
  }
  // Logits of keys [from, to) with the steps of argument=scaled.
  void make_logits(const AttentionRow& row, std::int64_t i, std::int64_t from, std::int64_t to) const {
    const std::int64_t position = queries_.first + (queries_.heads ? 0 : first_ + i);
    for (std::int64_t j = from; j < to; ++j) {
      float& x = s_[static_cast<std::size_t>(i * keys_ + j)];
      x = row.logit(x, static_cast<float>(queries_.softcap), queries_.slope_of(first_ + i),
                    std::fabs(static_cast<float>(position) - static_cast<float>(j)));
    }
  }
  Argument argument_of(std::int64_t i, const Tile& t) const {
    const std::int64_t own = (queries_.first + first_ + i) / how_.own_rows * how_.own_rows;
    if (how_.own == OwnTiles::same || t.from < own) return how_.argument;
    return how_.own == OwnTiles::scaled ? Argument::scaled : Argument::scaled_twice;
  }
  void set_rescale(std::int64_t i, const Tile& t, float a) {
    block.rescale[static_cast<std::size_t>(i) * tiles_ + t.place] = a;
    for (float& x : tile(i, t)) x = to_p_(x * p_factor_);
  }
  void finish(AttentionRow& row, std::size_t at) {
    row.finish();
    block.sums[at] = row.sum, block.tops[at] = row.top;
  }

  WeighedBlock block;

 private:
  const AttentionSchedule& how_;
  const ReplayQueries& queries_;
  std::int64_t keys_, first_;
  std::size_t tiles_;
  std::vector<float>& s_;
  Rounded to_p_{how_.p};
  float p_factor_ = std::ldexp(1.0f, static_cast<int>(how_.p_shift));
};

// slack: the rows of the block keep their maxima until a logit of one of them is too far above.
void weigh_together(const AttentionSchedule& how, std::vector<AttentionRow>& row,
                    const std::vector<Tile>& part, Weighing& of) {
  const auto rows = static_cast<std::int64_t>(row.size());
  const auto slack = static_cast<float>(how.slack);
  for (const Tile& t : part) {
    const bool whole = t.to - t.from == how.tile && of.sees(0, t.from);
    const Argument argument = whole || !how.edge_scaled ? how.argument : Argument::scaled;
    bool above = false;
    for (std::int64_t i = 0; i < rows; ++i) {
      AttentionRow& of_row = row[static_cast<std::size_t>(i)];
      if (argument != how.argument) of.make_logits(of_row, i, t.from, t.to);
      const std::span<float> s = of.tile(i, t);
      for (std::int64_t j = t.from; j < t.to; ++j)
        if (!of.sees(i, j)) s[static_cast<std::size_t>(j - t.from)] = kMinusInfinity;
      above |= of_row.largest(s, argument) > of_row.top + slack;
    }
    for (std::int64_t i = 0; i < rows; ++i)
      of.set_rescale(i, t, row[static_cast<std::size_t>(i)].tile(of.tile(i, t), argument, !above));
  }
}

}  // namespace

WeighedBlock weigh_rows(const AttentionSchedule& how, const ReplayQueries& queries, std::int64_t keys,
                        std::int64_t first, std::int64_t rows, std::span<const float> divisors,
                        const std::vector<std::vector<Tile>>& plan, std::vector<float>& s) {
  std::size_t tiles = 0;
  for (const auto& part : plan) tiles += part.size();
  Weighing of(how, queries, keys, first, rows, tiles, plan.size(), s);
  const auto at = [&](std::size_t part, std::int64_t i) {
    return part * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i);
  };
  std::vector<AttentionRow> row;
  const std::int64_t apart = how.slack > 0 ? rows : 1;
  for (std::int64_t i = 0; i < apart; ++i) row.emplace_back(how, queries.scale);
  for (std::int64_t i = 0; i < rows; ++i) {
    AttentionRow& of_row = row[static_cast<std::size_t>(how.slack > 0 ? i : 0)];
    const float divisor = divisors.empty() ? 1.0f : divisors[static_cast<std::size_t>(i)];
    of_row.set_query_scale(how.head_scales ? queries.k_scale * divisor : divisor);
    if (how.argument == Argument::scaled) of.make_logits(of_row, i, 0, keys);
    if (how.slack > 0) continue;
    Weights weigh{how, of_row, {}, {}};
    for (std::size_t part = 0; part < plan.size(); ++part) {
      of_row.start();
      for (const Tile& t : plan[part]) {
        const auto sees = [&](std::int64_t j) { return of.sees(i, t.from + j); };
        const Argument argument = of.argument_of(i, t);
        if (argument == Argument::scaled && how.argument != argument) of.make_logits(of_row, i, t.from, t.to);
        of.set_rescale(i, t, weigh.tile(of.tile(i, t), sees, argument));
      }
      of.finish(of_row, at(part, i));
    }
  }
  if (how.slack > 0)
    for (std::size_t part = 0; part < plan.size(); ++part) {
      for (AttentionRow& each : row) each.start();
      weigh_together(how, row, plan[part], of);
      for (std::int64_t i = 0; i < rows; ++i) of.finish(row[static_cast<std::size_t>(i)], at(part, i));
    }
  return std::move(of.block);
}

}  // namespace assay
