#include "cases/studies/identify/card.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cases/studies/identify/columns.hpp"

namespace assay {
namespace {

// Whose schedule a piece is: "" where it is everybody's.
std::string whose(const ShapeCard& shape, const RowPiece& p) {
  std::string text;
  if (std::ssize(p.rows) < shape.shape.m) text = fmt::format("rows {}", places_text(p.rows));
  if (!p.columns.empty())
    text += fmt::format("{}columns {}", text.empty() ? "" : " ", places_text(p.columns));
  return text;
}

}  // namespace

std::string schedule_of(const ShapeCard& shape) {
  if (!shape.refused.empty()) return "not run: " + shape.refused;
  std::string text;
  for (const RowPiece& p : shape.pieces) {
    if (!text.empty()) text += " | ";
    if (shape.pieces.size() > 1) text += whose(shape, p) + ": ";
    text += p.schedule ? print_schedule(*p.schedule) : "unknown";
  }
  return text;
}

std::string card_text(const Card& card) {
  std::string out = fmt::format("{}\n  backend  {}\n", card.subject, card.backend);
  std::map<std::string, std::vector<const ShapeCard*>> regions;
  std::vector<std::string> order;
  for (const ShapeCard& shape : card.shapes) {
    const std::string schedule = schedule_of(shape);
    if (!regions.contains(schedule)) order.push_back(schedule);
    regions[schedule].push_back(&shape);
  }
  for (const std::string& schedule : order) {
    const std::vector<const ShapeCard*>& shapes = regions[schedule];
    const ShapeCard& first = *shapes.front();
    out += fmt::format("\n  schedule {}\n", schedule);
    std::string where;
    std::int64_t compared = 0, unequal = 0;
    int calls = 0;
    double seconds = 0;
    for (const ShapeCard* s : shapes) {
      where += fmt::format("{}{}x{}x{}", where.empty() ? "" : ", ", s->shape.m, s->shape.n, s->shape.k);
      compared += s->compared(), calls += s->calls, seconds += s->seconds;
      for (const RowPiece& p : s->pieces) unequal += p.unequal;
    }
    out += fmt::format("  shapes   m x n x k: {}\n", where);
    if (!first.refused.empty()) continue;
    if (const std::optional<GroupedSchedule> of_rows = schedule_of_rows(first))
      out += fmt::format("  contract acc={}{} level=replay schedule={}\n", of_rows->grouped.acc,
                         first.operands_rounded.empty() ? "" : " " + first.operands_rounded,
                         as_contract_value(print_schedule(*of_rows)));
    if (first.identified()) {
      out += fmt::format("  bits     {} of {} stored outputs equal; {} calls, {:.1f} s\n", compared - unequal,
                         compared, calls, seconds);
    } else {
      for (const RowPiece& p : first.pieces)
        if (!p.schedule)
          out += fmt::format("  nearest  {} gives {:.3g} % of the outputs of row {}\n",
                             print_schedule(p.nearest), 100 * p.nearest_share, p.rows.front());
      out += fmt::format("  asked    {} calls, {:.1f} s\n", calls, seconds);
    }
    if (!first.declared_contract.empty()) out += fmt::format("  declared {}\n", first.declared_contract);
    if (!first.declared_path.empty()) out += fmt::format("  path     {}\n", first.declared_path);
    for (const std::string& kernel : first.kernels) out += fmt::format("  ran      {}\n", kernel);
    if (!first.masks.empty()) out += fmt::format("  masks    term 0 meets {}\n", first.masks);
    if (!first.tree.empty() && first.tree.size() < 400) out += fmt::format("  tree     {}\n", first.tree);
    for (const Evidence& e : first.evidence)
      out += fmt::format("  {}{:<10} {:<22} {}{}\n",
                         e.columns.empty() ? "" : fmt::format("columns {}: ", e.columns), e.field,
                         e.concluded ? e.value : "unknown (" + e.value + ")", e.against.empty() ? "" : "<- ",
                         e.against);
    for (const RowPiece& p : first.pieces)
      if (!p.also.empty())
        out += fmt::format("  also     {} more that give the same bits here, among them {}\n", p.also.size(),
                           print_schedule(p.also.front()));
    if (!first.tiny.empty()) out += fmt::format("  open     {}\n", first.tiny);
    out += fmt::format("  repeat   assay identify '{}' (seeds 1..{})\n", first.line, first.last_seed);
  }
  for (const Border& b : card.borders)
    out += fmt::format("\n  border   {}={} has the one schedule, {}={} the next\n", b.axis, b.last, b.axis,
                       b.next);
  if (!card.invariance.empty())
    out += fmt::format("\n  invariance over m: {}{}{}\n", card.invariance,
                       card.invariance_detail.empty() ? "" : ": ", card.invariance_detail);
  return out;
}

std::string card_json(const Card& card) {
  nlohmann::ordered_json out;
  out["subject"] = card.subject, out["backend"] = card.backend, out["commit"] = card.commit,
  out["machine"] = card.machine;
  for (const ShapeCard& s : card.shapes) {
    nlohmann::ordered_json shape;
    shape["m"] = s.shape.m, shape["n"] = s.shape.n, shape["k"] = s.shape.k;
    if (!s.refused.empty()) shape["not_run"] = s.refused;
    shape["identified"] = s.identified();
    shape["calls"] = s.calls, shape["seconds"] = s.seconds;
    if (!s.operands_rounded.empty()) shape["operands_rounded"] = s.operands_rounded;
    shape["declared"] = s.declared_contract, shape["path"] = s.declared_path, shape["kernels"] = s.kernels;
    shape["masks"] = s.masks, shape["tree"] = s.tree, shape["line"] = s.line,
    shape["last_seed"] = s.last_seed, shape["open"] = s.tiny;
    for (const RowPiece& p : s.pieces) {
      nlohmann::ordered_json piece;
      piece["rows"] = places_text(p.rows);
      if (!p.columns.empty()) piece["columns"] = places_text(p.columns);
      piece["schedule"] = p.schedule ? print_schedule(*p.schedule) : "unknown";
      piece["compared"] = p.compared, piece["unequal"] = p.unequal;
      if (!p.schedule) piece["nearest"] = print_schedule(p.nearest), piece["nearest_share"] = p.nearest_share;
      std::vector<std::string> also;
      for (std::size_t i = 0; i < std::min<std::size_t>(8, p.also.size()); ++i)
        also.push_back(print_schedule(p.also[i]));
      piece["also"] = also, piece["also_count"] = p.also.size();
      shape["pieces"].push_back(piece);
    }
    for (const Evidence& e : s.evidence) {
      shape["evidence"].push_back({{"field", e.field},
                                   {"value", e.concluded ? e.value : "unknown"},
                                   {"here", e.value},
                                   {"against", e.against}});
      if (!e.columns.empty()) shape["evidence"].back()["columns"] = e.columns;
    }
    out["shapes"].push_back(shape);
  }
  for (const Border& b : card.borders)
    out["borders"].push_back({{"axis", std::string(1, b.axis)}, {"last", b.last}, {"next", b.next}});
  if (!card.invariance.empty())
    out["invariance"] = {{"over", "m"}, {"result", card.invariance}, {"detail", card.invariance_detail}};
  return out.dump(2) + "\n";
}

}  // namespace assay
