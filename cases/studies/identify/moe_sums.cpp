// The schedules that a product of a mixture of experts may have, from those of its rows at one count and at
// fewer.
#include <algorithm>
#include <array>
#include <set>

#include "cases/studies/identify/moe.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr std::size_t kMostAlternatives = 16;  // of a product's schedule

// What these pieces admit: the schedule of all rows and its alternatives, or of rows in groups of every size
// that leaves such a rest.
std::vector<GroupedSchedule> grouped(const std::vector<RowPiece>& pieces, std::int64_t rows) {
  const auto found = [](const RowPiece& p) { return p.schedule.has_value(); };
  if (pieces.empty() || pieces.size() > 2 || !std::ranges::all_of(pieces, found)) return {};
  const auto alternatives = [](const RowPiece& p) {
    std::vector<Schedule> list{*p.schedule};
    list.insert(list.end(), p.also.begin(),
                p.also.begin() + static_cast<std::ptrdiff_t>(std::min(kMostAlternatives, p.also.size())));
    return list;
  };
  std::vector<GroupedSchedule> list;
  if (pieces.size() == 1) {
    for (const Schedule& s : alternatives(pieces[0])) list.push_back({s, s, 1, {}});
    return list;
  }
  // Rows that are left and show little may fit the schedule of the groups too.
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 2; size <= rows; ++size)
    if (rows % size != 0 && pieces[1].rows.front() >= rows - rows % size) sizes.push_back(size);
  std::ranges::stable_sort(sizes, {}, [](std::int64_t size) { return (size & (size - 1)) != 0; });
  for (const Schedule& s : alternatives(pieces[0]))
    for (const Schedule& left : alternatives(pieces[1]))
      for (const std::int64_t size : sizes) list.push_back({s, left, size, {}});
  return list;
}

// Other spellings of the same additions of k terms are one.
std::vector<GroupedSchedule> without_copies(std::vector<GroupedSchedule> list, std::int64_t k) {
  std::set<std::array<std::uint64_t, 3>> seen;
  std::erase_if(list, [&](const GroupedSchedule& s) {
    return !seen.insert({signature(plan_sum(s.grouped, k)), signature(plan_sum(s.left, k)),
                         static_cast<std::uint64_t>(s.rows)})
                .second;
  });
  return list;
}

// A schedule as one of operands with scales has it.
std::vector<GroupedSchedule> with_scales(const std::vector<GroupedSchedule>& list, bool scaled) {
  if (!scaled) return list;
  std::vector<GroupedSchedule> out;
  for (const GroupedSchedule& s : list)
    for (const char* order : {"a_b", "b_a", "product"}) {
      out.push_back(s);
      out.back().grouped.scales = out.back().left.scales = order;
    }
  return out;
}

}  // namespace

std::vector<GroupedSchedule> schedules_of_rows(const ShapeCard& card, bool scaled) {
  return with_scales(without_copies(grouped(card.pieces, card.shape.m), card.shape.k), scaled);
}

std::vector<std::pair<std::int64_t, Schedule>> schedules_of_few_rows(GemmSubject& part, const ShapeCard& most,
                                                                     IdentifyOptions options) {
  options.least_outputs = std::min<std::int64_t>(options.least_outputs, 2000);
  std::vector<ShapeCard> cards;
  std::vector<Schedule> known{*most.pieces.front().schedule};
  for (std::int64_t rows = 1; rows < most.shape.m; rows *= 2) {
    GemmShape few = most.shape;
    few.m = rows;
    cards.push_back(identify_shape(part, few, known, options));
    if (!cards.back().identified() || cards.back().pieces.size() != 1) return {};
    const Schedule& found = *cards.back().pieces.front().schedule;
    if (std::ranges::find(known, found) == known.end()) known.push_back(found);
  }
  cards.push_back(most);
  std::vector<std::pair<std::int64_t, Schedule>> below;
  for (std::size_t i = 0; i + 1 < cards.size(); ++i) {
    const Schedule& low = *cards[i].pieces.front().schedule;
    if (low == *cards[i + 1].pieces.front().schedule) continue;
    const std::optional<Border> border = find_border(part, cards[i], cards[i + 1], 'm');
    if (!border) return {};
    below.emplace_back(border->next, low);
  }
  return below;
}

}  // namespace assay
