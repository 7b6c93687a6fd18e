#include "cases/studies/identify/search.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>

#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {
namespace {

constexpr std::size_t kMostAlike = 512;  // sums that are held against all rows of one answer

struct Excerpt {
  Answer answer;
  GemmReplay replay;

  Excerpt(const Answer& whole, const std::vector<std::int64_t>& rows,
          const std::vector<std::int64_t>& columns)
      : answer(excerpt(whole, rows, columns)), replay(answer.a, answer.b) {}
  // Outputs that differ; all of them where the schedule cannot be replayed on these operands.
  std::int64_t unequal(const Schedule& s, const std::string& stored_as) const {
    try {
      const std::vector<double> stored = stored_outputs(answer, replay.sums(s), s.scales, stored_as);
      std::int64_t count = 0;
      for (std::size_t i = 0; i < stored.size(); ++i) count += same_number(stored[i], answer.got[i]) ? 0 : 1;
      return count;
    } catch (const InputError&) {
      return static_cast<std::int64_t>(answer.got.size());
    }
  }
};

std::vector<Schedule> with_scales(const Schedule& s, const Answer& answer, bool scaled) {
  if (s.scales != "none" || (!scaled && answer.a_scale.empty() && answer.b_scale.empty())) return {s};
  std::vector<Schedule> list;
  for (const char* order : {"a_b", "b_a", "product"}) list.push_back(s), list.back().scales = order;
  return list;
}

}  // namespace

Answer excerpt(const Answer& whole, const std::vector<std::int64_t>& rows,
               const std::vector<std::int64_t>& columns) {
  Answer part{whole.line, rows_of(whole.a, rows), rows_of(whole.b, columns), {}, {}, {}, whole.unit};
  for (const std::int64_t r : rows) {
    if (!whole.a_scale.empty()) part.a_scale.push_back(whole.a_scale[static_cast<std::size_t>(r)]);
    for (const std::int64_t c : columns)
      part.got.push_back(whole.got[static_cast<std::size_t>(r * whole.b.rows + c)]);
  }
  for (const std::int64_t c : columns)
    if (!whole.b_scale.empty()) part.b_scale.push_back(whole.b_scale[static_cast<std::size_t>(c)]);
  return part;
}

std::vector<std::int64_t> spread(std::int64_t count, std::int64_t most) {
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < std::min(count, most); ++i) list.push_back(i * count / std::min(count, most));
  return list;
}

bool same_number(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

std::vector<double> stored_outputs(const Answer& answer, const std::vector<double>& sums,
                                   const std::string& scales, const std::string& stored_as) {
  std::vector<double> out(sums.size());
  const auto n = static_cast<std::size_t>(answer.b.rows);
  struct Store {
    const ScalarFormat* element;  // nullptr: to width
    Width width;
  };
  std::vector<Store> roundings;
  for (std::size_t at = 0; at <= stored_as.size();) {
    const std::string name = stored_as.substr(at, stored_as.find('>', at) - at);
    const bool wide = name == "f32" || name == "f16" || name == "bf16";
    roundings.push_back({wide ? nullptr : &scalar_format(name), width_of(wide ? name : "f32")});
    at += name.size() + 1;
  }
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const float sa = answer.a_scale.empty() ? 1.0F : answer.a_scale[at / n];
    const float sb = answer.b_scale.empty() ? 1.0F : answer.b_scale[at % n];
    double x = with_scales(sums[at], sa, sb, scales);
    for (const Store& r : roundings) {
      const double unit = &r == roundings.data() ? answer.unit : 1;
      x = unit * (r.element == nullptr ? round_to_width(x / unit, r.width)
                                       : round_to(*r.element, x / unit, {.overflow = Overflow::saturate}));
    }
    out[at] = x;
  }
  return out;
}

namespace {

// A row may fit by chance what is another row's whole schedule: pieces are joined where one of their
// schedules fits all.
void join(std::vector<RowPiece>& pieces, const Answer& answer, const std::string& stored_as) {
  const std::vector<std::int64_t> all = spread(answer.b.rows, answer.b.rows);
  for (std::size_t of = pieces.size(); of-- > 0;) {
    if (!pieces[of].schedule) continue;
    for (std::size_t with = 0; with < pieces.size(); ++with) {
      if (with == of || !pieces[with].schedule) continue;
      const Excerpt rows(answer, pieces[with].rows, all);
      const auto differs = [&](const Schedule& s) { return rows.unequal(s, stored_as) > 0; };
      if (differs(*pieces[of].schedule)) continue;
      std::erase_if(pieces[of].also, differs);
      pieces[of].rows.insert(pieces[of].rows.end(), pieces[with].rows.begin(), pieces[with].rows.end());
      std::ranges::sort(pieces[of].rows);
      pieces[of].compared += pieces[with].compared;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(with));
      return join(pieces, answer, stored_as);
    }
  }
}

}  // namespace

std::vector<RowPiece> search(const Answer& answer, const std::string& stored_as,
                             const std::vector<Schedule>& hypotheses, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<RowPiece> pieces;
  std::vector<std::int64_t> left;
  for (std::int64_t r = 0; r < answer.a.rows; ++r) left.push_back(r);
  const std::vector<std::int64_t> few = spread(answer.b.rows, 16), many = spread(answer.b.rows, 64),
                                  all = spread(answer.b.rows, answer.b.rows);
  while (!left.empty()) {
    const std::int64_t row = left.front();
    const Excerpt first(answer, {row}, few), second(answer, {row}, all);
    RowPiece piece;
    std::vector<std::vector<Schedule>> found(hypotheses.size());
    std::atomic<std::size_t> best{hypotheses.size()};  // the first that fits so far
    std::mutex mutex;
    std::int64_t nearest = static_cast<std::int64_t>(few.size()) + 1;
    constexpr std::size_t kGrain = 32;
    parallel_units((hypotheses.size() + kGrain - 1) / kGrain, [&](std::size_t unit) {
      if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(options.seconds)) return;
      for (std::size_t h = unit * kGrain; h < std::min(hypotheses.size(), (unit + 1) * kGrain); ++h) {
        if (!options.alternatives && h > best) return;
        for (const Schedule& s : with_scales(hypotheses[h], answer, options.scaled)) {
          const std::int64_t off = first.unequal(s, stored_as);
          if (off == 0 && second.unequal(s, stored_as) == 0) {
            found[h].push_back(s);
            std::size_t before = best;
            while (h < before && !best.compare_exchange_weak(before, h)) {
            }
          } else if (off > 0) {
            const std::lock_guard lock(mutex);
            if (off < nearest) nearest = off, piece.nearest = s;
          }
        }
      }
    });
    std::vector<Schedule> fitting;
    for (const auto& each : found) fitting.insert(fitting.end(), each.begin(), each.end());
    if (!options.alternatives && fitting.size() > 1) {
      // The orders of the scales are one hypothesis, which other answers decide.
      const Schedule bare = fitting.front();
      std::erase_if(fitting, [&](Schedule s) {
        s.scales = bare.scales;
        return s != bare;
      });
    }
    if (fitting.empty()) {
      // No schedule of this row: the others are tried one by one only as far as they may differ from it.
      piece.rows = left;
      piece.nearest_share = 1 - static_cast<double>(second.unequal(piece.nearest, stored_as)) /
                                    static_cast<double>(std::max<std::int64_t>(1, answer.b.rows));
      piece.compared = answer.b.rows;
      piece.unequal = answer.b.rows;
      pieces.push_back(std::move(piece));
      break;
    }
    // Of what fits alike the shortest; whether products are fused often leaves no trace and lengthens
    // nothing.
    std::vector<std::pair<std::ptrdiff_t, Schedule>> by_length;
    for (Schedule& s : fitting)
      by_length.emplace_back(std::ranges::count(print_schedule(s), '=') - (s.fma ? 1 : 0), std::move(s));
    std::ranges::stable_sort(by_length, {}, &std::pair<std::ptrdiff_t, Schedule>::first);
    fitting.clear();
    for (auto& each : by_length) fitting.push_back(std::move(each.second));
    // The rows that have this schedule too; an alternative must be equal wherever the first one is.
    const Excerpt rest(answer, left, all);
    std::vector<std::pair<Schedule, std::vector<char>>> tried;  // and the rows that it fits
    std::map<std::pair<std::uint64_t, std::string>, std::vector<char>>
        known;  // rows that these additions fit
    std::size_t spellings = 0;
    for (const Schedule& s : fitting) {
      if (known.size() >= kMostAlike) break;  // an answer that shows nothing
      // Another spelling of the same additions is kept, for it may stand for others at another length; at
      // most so many.
      const auto [at, is_new] =
          known.try_emplace({signature(plan_sum(s, answer.a.k)), s.scales}, left.size(), 1);
      if (!is_new && ++spellings > 64) continue;
      std::vector<char>& fits = at->second;
      if (is_new) {
        const std::vector<double> stored =
            stored_outputs(rest.answer, rest.replay.sums(s), s.scales, stored_as);
        for (std::size_t i = 0; i < stored.size(); ++i)
          if (!same_number(stored[i], rest.answer.got[i])) fits[i / all.size()] = 0;
      }
      tried.emplace_back(s, fits);
    }
    // A row may show little: of what fits the first row that is chosen which fits most rows.
    const auto rows_of = [](const auto& each) { return std::ranges::count(each.second, 1); };
    const auto chosen = std::ranges::max_element(tried, {}, rows_of);
    const std::vector<char> row_fits = chosen->second;
    piece.schedule = chosen->first;
    for (const auto& [s, fits] : tried)
      if (s != *piece.schedule && fits == row_fits) piece.also.push_back(s);
    std::vector<std::int64_t> others;
    for (std::size_t r = 0; r < left.size(); ++r) (row_fits[r] != 0 ? piece.rows : others).push_back(left[r]);
    piece.compared = static_cast<std::int64_t>(piece.rows.size()) * answer.b.rows;
    left = std::move(others);
    pieces.push_back(std::move(piece));
  }
  join(pieces, answer, stored_as);
  return pieces;
}

void confirm(std::vector<RowPiece>& pieces, const Answer& answer, const std::string& stored_as) {
  const std::vector<std::int64_t> all = spread(answer.b.rows, answer.b.rows);
  for (RowPiece& piece : pieces) {
    if (!piece.schedule) continue;
    const Excerpt rows(answer, piece.rows, all);
    std::vector<Schedule> candidates{*piece.schedule};
    candidates.insert(candidates.end(), piece.also.begin(), piece.also.end());
    std::vector<Schedule> kept;
    std::int64_t off = 0;
    std::map<std::pair<std::uint64_t, std::string>, std::int64_t>
        known;  // other spellings of the same additions
    for (const Schedule& s : candidates) {
      const auto [at, is_new] = known.try_emplace({signature(plan_sum(s, answer.a.k)), s.scales}, 0);
      if (is_new) at->second = rows.unequal(s, stored_as);
      const std::int64_t here = at->second;
      if (here == 0)
        kept.push_back(s);
      else if (kept.empty() && off == 0)
        off = here;
    }
    piece.compared += static_cast<std::int64_t>(rows.answer.got.size());
    if (kept.empty()) {
      piece.nearest = *piece.schedule;
      piece.unequal += off;
      piece.nearest_share = 1 - static_cast<double>(piece.unequal) / static_cast<double>(piece.compared);
      piece.schedule.reset();
      piece.also.clear();
      continue;
    }
    piece.schedule = kept.front();
    piece.also.assign(kept.begin() + 1, kept.end());
  }
}

}  // namespace assay
