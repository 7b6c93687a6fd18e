#include "cases/studies/identify/matmul_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

#include "cases/studies/identify/border.hpp"
#include "cases/studies/identify/columns.hpp"
#include "cases/studies/identify/invariance.hpp"
#include "cases/studies/identify/replay_level.hpp"
#include "cases/studies/identify/worker_subject.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

// What the bits of a shape say against its declared contract; "" where they say nothing, or not surely.
std::string contradicted(const ShapeCard& shape) {
  if (!shape.identified() || shape.declared_contract.empty()) return "";
  const Contract contract = Contract::parse(shape.declared_contract, op("matmul").contract);
  for (const RowPiece& p : shape.pieces) {
    std::string against = contradiction(contract, *p.schedule, shape.shape.k);
    // Fields that other values explain as well accuse nobody.
    const bool sure = contract.text("acc") != p.schedule->acc
                          ? shape.concludes("acc")
                          : std::ranges::all_of(std::array{"order", "lanes", "chunk", "split"},
                                                [&](const char* field) { return shape.concludes(field); });
    if (!against.empty() && sure) return against;
  }
  return "";
}

// Neighbouring shapes of two schedules that differ along one axis.
void find_borders(Card& card, GemmSubject& subject) {
  for (std::size_t i = 1; i < card.shapes.size(); ++i) {
    const ShapeCard &low = card.shapes[i - 1], &high = card.shapes[i];
    if (!low.identified() || !high.identified() || low.pieces.size() != 1 || high.pieces.size() != 1 ||
        *low.pieces[0].schedule == *high.pieces[0].schedule)
      continue;
    const bool m = low.shape.m != high.shape.m, n = low.shape.n != high.shape.n,
               k = low.shape.k != high.shape.k;
    if (m + n + k != 1) continue;
    if (const auto border = find_border(subject, low, high, m ? 'm' : n ? 'n' : 'k'))
      card.borders.push_back(*border);
  }
}

}  // namespace

std::string MatmulCases::key_of(const Case& c) {
  std::map<std::string, std::string> given = c.attributes.all();
  return fmt::format("{} a={} b={} dtype={} path={} fill={} backend={}{}", c.op->name, given["a"], given["b"],
                     given["dtype"], given["path"], c.fill, c.backend,
                     c.variant.empty() ? "" : " variant=" + c.variant);
}

void MatmulCases::take(const Case& c) {
  const GemmShape shape{c.attributes.integer("m"), c.attributes.integer("n"), c.attributes.integer("k")};
  const std::string key = key_of(c);
  Kernel& kernel = kernels_[key];
  if (kernel.subject == nullptr) {
    kernel.card.subject = key;
    kernel.card.backend = options.answers.empty() ? kernels.workers.open(c.backend).description
                                                  : "answers kept in " + options.answers;
    kernel.subject = worker_subject(c, kernels);
  }
  if (!options.schedule.empty()) return judge(c, kernel, shape);
  ShapeCard one = identify_columns(*kernel.subject, shape, kernel.found,
                                   {.most_mask_calls = options.masks,
                                    .least_outputs = options.outputs,
                                    .search_seconds = options.seconds});
  for (const RowPiece& p : one.pieces) {
    remember(kernel.found, p.schedule);
    if (p.schedule)
      for (const Schedule& s : p.also) remember(kernel.found, std::optional(s));
  }
  fmt::print(stderr, "{} {}x{}x{}: {} calls, {:.1f} s\n", key, shape.m, shape.n, shape.k, one.calls,
             one.seconds);
  kernel.card.shapes.push_back(std::move(one));
  if (static_cast<std::int64_t>(kernel.card.shapes.size()) == kernel.expected) show_card(kernel);
}

void MatmulCases::judge(const Case& c, Kernel& kernel, const GemmShape& shape) {
  const GroupedSchedule declared = parse_grouped_schedule(options.schedule);
  const std::int64_t outputs = std::max<std::int64_t>(1, shape.m * shape.n);
  const auto seeds = std::clamp<std::int64_t>((options.outputs + outputs - 1) / outputs, 2, 1000);
  const ReplayVerdict verdict = judge_by_replay(*kernel.subject, shape, declared, static_cast<int>(seeds));
  judged(c, describe(verdict, declared), verdict.ok());
}

void MatmulCases::show_card(Kernel& kernel) {
  Card& card = kernel.card;
  unify(card.shapes);
  find_borders(card, *kernel.subject);
  if (options.invariance) decide_invariance(card, *kernel.subject);
  std::string fallbacks;
  bool refused = true;
  for (const ShapeCard& shape : card.shapes) {
    refused &= !shape.refused.empty();
    const std::string against = contradicted(shape);
    if (against.empty()) continue;
    finding = true;
    fallbacks +=
        fmt::format("\n  fallback {}x{}x{}: {}\n", shape.shape.m, shape.shape.n, shape.shape.k, against);
  }
  finding |= card.invariance == "refuted";
  show(card_text(card) + fallbacks, card_json(card), refused);
}

}  // namespace assay
