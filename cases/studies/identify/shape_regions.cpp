// The shapes of one kernel side by side: a schedule that all of them admit, and where one ends and another
// begins.
#include <algorithm>
#include <stdexcept>

#include "cases/studies/identify/border.hpp"
#include "cases/studies/identify/identify.hpp"

namespace assay {
namespace {

constexpr std::uint64_t kSeed = 1;

}  // namespace

void unify(std::vector<ShapeCard>& shapes) {
  for (std::size_t i = 1; i < shapes.size(); ++i) {
    if (!shapes[i].identified() || shapes[i].pieces.size() != 1) continue;
    // The shapes before it that had one schedule among them, and what all of them and this one admit.
    for (std::size_t j = 0; j < i; ++j) {
      if (!shapes[j].identified() || shapes[j].pieces.size() != 1) continue;
      const Schedule region = *shapes[j].pieces.front().schedule;
      std::vector<RowPiece*> members;
      for (std::size_t k = 0; k < i; ++k)
        if (shapes[k].identified() && shapes[k].pieces.size() == 1 &&
            *shapes[k].pieces.front().schedule == region)
          members.push_back(&shapes[k].pieces.front());
      members.push_back(&shapes[i].pieces.front());
      std::vector<Schedule> common{*members.back()->schedule};
      common.insert(common.end(), members.back()->also.begin(), members.back()->also.end());
      for (const RowPiece* m : members)
        std::erase_if(common, [&](const Schedule& s) {
          return *m->schedule != s && std::ranges::find(m->also, s) == m->also.end();
        });
      if (common.empty()) continue;
      const Schedule chosen = std::ranges::find(common, region) != common.end() ? region : common.front();
      for (RowPiece* m : members) {
        if (*m->schedule == chosen) continue;
        std::erase(m->also, chosen);
        m->also.insert(m->also.begin(), *m->schedule);
        m->schedule = chosen;
      }
      break;
    }
  }
}

std::optional<Border> find_border(GemmSubject& subject, const ShapeCard& low, const ShapeCard& high,
                                  char axis) {
  const auto value = [&](const GemmShape& s) { return axis == 'm' ? s.m : axis == 'n' ? s.n : s.k; };
  if (!low.identified() || !high.identified()) return std::nullopt;
  const auto side = [&](std::int64_t size) -> std::optional<int> {
    GemmShape middle = low.shape;
    (axis == 'm' ? middle.m : axis == 'n' ? middle.n : middle.k) = size;
    std::optional<Answer> answer;
    try {
      answer = subject.drawn(middle, kSeed);
    } catch (const std::runtime_error&) {  // a size that the kernel does not take
    }
    if (!answer) return std::nullopt;
    const auto fits = [&](const Schedule& s) {
      const auto pieces = search(*answer, subject.stored_as(), {s}, {.alternatives = false});
      return std::ranges::all_of(pieces, [](const RowPiece& p) { return p.schedule.has_value(); });
    };
    const bool as_low = fits(*low.pieces.front().schedule), as_high = fits(*high.pieces.front().schedule);
    if (as_low == as_high) return std::nullopt;
    return as_low ? 0 : 1;
  };
  // Kernels of 8 bits take multiples of 16 alone.
  for (const std::int64_t step : {1, 16}) {
    if (value(low.shape) % step != 0 || value(high.shape) % step != 0) break;
    const auto border = halved_border(value(low.shape) / step, value(high.shape) / step,
                                      [&](std::int64_t size) { return side(size * step); });
    if (border) return Border{axis, border->last * step, border->next * step};
  }
  return std::nullopt;
}

}  // namespace assay
