// What a product of a mixture of experts is summed by where few rows meet an expert's weights.
#include <algorithm>

#include "cases/studies/identify/moe.hpp"

namespace assay {

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
