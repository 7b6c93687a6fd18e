#include "cases/studies/identify/invariance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "cases/studies/identify/search.hpp"

namespace assay {

void decide_invariance(Card& card, GemmSubject& subject) {
  const auto also_fits = [&](const Schedule& s, const GemmShape& shape) {
    return std::ranges::all_of(std::array<std::uint64_t, 3>{1, 2, 3}, [&](std::uint64_t seed) {
      const std::optional<Answer> drawn = subject.drawn(shape, seed);
      return drawn && std::ranges::all_of(search(*drawn, subject.stored_as(), {s}, {.alternatives = false}),
                                          [](const RowPiece& p) { return p.schedule.has_value(); });
    });
  };
  card.invariance = "proven";
  const ShapeCard* first = nullptr;
  for (const ShapeCard& shape : card.shapes) {
    if (!shape.identified()) {
      card.invariance = "unknown";
      card.invariance_detail = fmt::format("no schedule was found at m={}", shape.shape.m);
      return;
    }
    if (first == nullptr) first = &shape;
    // Of one row a piece is one of columns, which are not what invariance asks of.
    const auto alike = [](const RowPiece& p, const RowPiece& q) {
      return p.columns == q.columns && *p.schedule == *q.schedule;
    };
    const bool by_rows = std::ranges::any_of(
        shape.pieces, [&](const RowPiece& p) { return std::ssize(p.rows) < shape.shape.m; });
    const bool same = !by_rows && shape.shape.n == first->shape.n && shape.shape.k == first->shape.k &&
                      std::ranges::equal(shape.pieces, first->pieces, alike);
    if (same) continue;
    if (shape.pieces.size() == 1 && first->pieces.size() == 1 && shape.shape.n == first->shape.n &&
        shape.shape.k == first->shape.k &&
        (also_fits(*first->pieces.front().schedule, shape.shape) ||
         also_fits(*shape.pieces.front().schedule, first->shape))) {
      card.invariance = "unknown";
      card.invariance_detail =
          fmt::format("m={} and m={} have schedules of which one explains the outputs drawn at both",
                      first->shape.m, shape.shape.m);
      return;
    }
    card.invariance = "refuted";
    const std::string one = print_schedule(*first->pieces.front().schedule);
    if (by_rows)
      card.invariance_detail = fmt::format("at m={} row {} has {} and row {} has {}: {}", shape.shape.m,
                                           shape.pieces[0].rows.front(), one, shape.pieces[1].rows.front(),
                                           print_schedule(*shape.pieces[1].schedule), shape.line);
    else
      card.invariance_detail = fmt::format(
          "m={} has {} and m={} has {}: row 0 of '{}' and of '{}' are summed otherwise", first->shape.m, one,
          shape.shape.m, print_schedule(*shape.pieces.front().schedule), first->line, shape.line);
    return;
  }
  card.invariance_detail =
      fmt::format("one schedule at all {} values of m that were asked", card.shapes.size());
}

}  // namespace assay
