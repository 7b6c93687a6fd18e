#include "cases/studies/identify/identify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <stdexcept>

#include "cases/studies/identify/crafted.hpp"
#include "cases/studies/identify/hypotheses.hpp"
#include "reference/error.hpp"
#include "reference/mix.hpp"

namespace assay {
namespace {

constexpr std::uint64_t kFirstSeed = 1;
constexpr double kSearches = 3;  // of options.search_seconds: behind them no further answer is searched
// Products of one answer that a field's other value is tried on: few, and where they tell nothing as many.
constexpr std::array kEvidence{std::int64_t{1} << 21, std::int64_t{1} << 28};

bool all_found(const std::vector<RowPiece>& pieces) {
  return !pieces.empty() &&
         std::ranges::all_of(pieces, [](const RowPiece& p) { return p.schedule.has_value(); });
}

// The inner schedules whose cuts into chunks and slices are worth a search: matrix units, and the plainest
// lanes.
std::vector<Schedule> worth_cutting(const std::vector<Schedule>& inner) {
  std::vector<Schedule> list;
  for (const Schedule& s : inner)
    if (s.unit() != nullptr ||
        (s.acc == "f32" && s.pack == 1 && !s.descending && s.tail == Tail::lanes && s.lanes <= 32 &&
         s.head == 0 && s.cascade == 0 && (s.fold == "halving" || (s.lanes > 1 && s.fold == "sequential"))))
      list.push_back(s);
  return list;
}

// Lanes that are as long as a chunk are chunks: the plainer spelling of the same additions. exact: products
// are, so that fused or not is the same.
void respell(RowPiece& piece, std::int64_t n, bool exact) {
  const Schedule found = *piece.schedule;
  if (found.lanes == 1 || found.unit() != nullptr) return;
  const auto additions = [&](Schedule s) {
    s.fma &= !exact;
    return signature(plan_sum(s, n));
  };
  const std::uint64_t same = additions(found);
  const auto keys = [](const Schedule& s) { return std::ranges::count(print_schedule(s), '='); };
  Schedule plain = found;
  plain.lanes = plain.pack = 1, plain.head = plain.cascade = 0, plain.head_apart = false;
  plain.fold = "halving", plain.tail = Tail::lanes, plain.tail_width = 0;
  for (std::int64_t lanes = 1; lanes < found.lanes; lanes *= 2) {
    plain.lanes = lanes;
    for (const Schedule& s : outer_schedules(plain, n))
      if (s != found && keys(s) <= keys(found) && additions(s) == same) {
        piece.also.insert(piece.also.begin(), found);
        piece.schedule = s;
        return;
      }
    if (found.pack == 1 && !found.swapped) return;  // strided lanes are no chunks
  }
}

std::vector<RowPiece> find(const Answer& answer, const std::string& stored_as,
                           const std::vector<Schedule>& known, const std::string& a, const std::string& b,
                           const IdentifyOptions& options, bool scaled) {
  if (!known.empty()) {
    std::vector<RowPiece> pieces = search(answer, stored_as, known, {.scaled = scaled});
    if (all_found(pieces)) return pieces;
  }
  const std::int64_t n = answer.a.k;
  const std::vector<Schedule> units = unit_schedules(a, b);
  std::vector<RowPiece> pieces = search(answer, stored_as, units, {.scaled = scaled});
  if (all_found(pieces)) return pieces;
  std::vector<Schedule> cut;
  for (const Schedule& s : units) {
    if (s.unit() == nullptr) continue;  // sums of integers
    const std::vector<Schedule> of = outer_schedules(s, n);
    cut.insert(cut.end(), of.begin() + 1, of.end());
  }
  // What silicon was seen to do first, and few slices before many.
  std::ranges::stable_sort(
      cut, {}, [](const Schedule& s) { return std::pair(s.unit()->standing != Standing::silicon, s.split); });
  for (const Schedule& s : units) {
    if (s.unit() == nullptr || s.unit()->standing != Standing::silicon) continue;
    const std::vector<Schedule> of = promoted_slices(s, n);
    cut.insert(cut.end(), of.begin(), of.end());
  }
  std::vector<Schedule> lanes = lane_schedules(n);
  // Without a unit for these formats the lanes alone; where there is one, whichever is the shorter search
  // first.
  const SearchOptions first_that_fits{
      .alternatives = false, .scaled = scaled, .seconds = options.search_seconds};
  if (n > 1024 && !cut.empty()) {
    pieces = search(answer, stored_as, cut, first_that_fits);
    if (all_found(pieces)) return pieces;
  }
  std::vector<RowPiece> by_lanes =
      search(answer, stored_as, lanes, {.scaled = scaled, .seconds = options.search_seconds});
  if (all_found(by_lanes)) {
    for (RowPiece& piece : by_lanes) respell(piece, n, a != "f32" && b != "f32");
    return by_lanes;
  }
  if (n <= 1024 && !cut.empty()) {
    pieces = search(answer, stored_as, cut, first_that_fits);
    if (all_found(pieces)) return pieces;
  }
  for (const Schedule& s : worth_cutting(lanes)) {
    const std::vector<Schedule> of = outer_schedules(s, n);
    lanes.insert(lanes.end(), of.begin() + 1, of.end());
  }
  lanes.insert(lanes.end(), units.begin(), units.end());
  std::vector<RowPiece> last = search(answer, stored_as, lanes, first_that_fits);
  return all_found(last) || cut.empty() || last.front().nearest_share > pieces.front().nearest_share ? last
                                                                                                     : pieces;
}

// Where a kernel with another value of a field would have stored something else: on a few rows, or else on
// more.
RowPiece against(const Schedule& other, const RowPiece& piece, const std::vector<const Answer*>& answers,
                 const std::string& stored_as) {
  const std::int64_t row_products = std::max<std::int64_t>(1, answers.front()->b.rows * answers.front()->b.k);
  std::vector<RowPiece> one(1);
  const std::int64_t n = answers.front()->a.k;
  if (signature(plan_sum(other, n)) == signature(plan_sum(*piece.schedule, n)) &&
      other.scales == piece.schedule->scales) {  // the same additions: nothing can tell them apart
    one[0].compared = piece.compared;
    return one[0];
  }
  for (const std::int64_t products : kEvidence) {
    one[0] = RowPiece{};
    one[0].schedule = other;
    for (const std::int64_t i :
         spread(std::ssize(piece.rows), std::max<std::int64_t>(4, products / row_products)))
      one[0].rows.push_back(piece.rows[static_cast<std::size_t>(i)]);
    for (const Answer* answer : answers) confirm(one, *answer, stored_as);
    if (one[0].unequal > 0) break;
  }
  return one[0];
}

std::vector<Evidence> evidence_of(const RowPiece& piece, const std::vector<const Answer*>& answers,
                                  const std::string& stored_as) {
  std::vector<Evidence> list;
  const std::string text = " " + print_schedule(*piece.schedule) + " ";
  const std::vector<Tampered> others = tampered(*piece.schedule, answers.front()->a.k);
  for (const KeySpec& key : schedule_keys()) {
    const std::size_t at = text.find(fmt::format(" {}=", key.name));
    Evidence e{std::string(key.name), std::string(key.fallback), "", true};
    if (at != std::string::npos) {
      const std::size_t value = at + key.name.size() + 2;
      e.value = text.substr(value, text.find(' ', value) - value);
    }
    for (const Tampered& t : others) {
      if (t.field != e.field) continue;
      RowPiece other;
      try {
        other = against(t.schedule, piece, answers, stored_as);
      } catch (const InputError&) {
        continue;
      }
      std::string pair = print_schedule(t.schedule);
      const std::size_t of = (" " + pair).find(fmt::format(" {}=", key.name));
      pair = of == std::string::npos ? fmt::format("{}={}", key.name, key.fallback)
                                     : pair.substr(of, pair.find(' ', of) - of);
      e.concluded &= other.unequal > 0;
      e.against += fmt::format("{}{}: {} of {} differ", e.against.empty() ? "" : "; ", pair, other.unequal,
                               other.compared);
    }
    if (!e.against.empty() || at != std::string::npos) list.push_back(std::move(e));
  }
  return list;
}

}  // namespace

bool ShapeCard::identified() const { return all_found(pieces); }

bool ShapeCard::concludes(std::string_view field) const {
  return std::ranges::none_of(evidence, [&](const Evidence& e) { return e.field == field && !e.concluded; });
}

std::int64_t ShapeCard::compared() const {
  std::int64_t sum = 0;
  for (const RowPiece& p : pieces) sum += p.compared;
  return sum;
}

ShapeCard identify_shape(GemmSubject& subject, const GemmShape& shape, const std::vector<Schedule>& known,
                         const IdentifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const int before = subject.calls;
  ShapeCard card;
  card.shape = shape;
  const auto finish = [&] {
    card.calls = subject.calls - before;
    card.kernels = subject.kernels;
    card.declared_contract = subject.declared_contract, card.declared_path = subject.declared_path;
    card.operands_rounded = subject.operands_rounded();
    card.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const std::string stored_as = subject.stored_as();
  std::optional<Answer> first;
  std::vector<Answer> crafted, tiny;
  try {
    first = subject.drawn(shape, kFirstSeed);
    if (!first) {
      card.refused = "the kernel does not take this shape";
      finish();
      return card;
    }
    if (options.most_mask_calls > 0)
      if (const std::optional<MaskAnswers> masks = ask_masks(subject, shape, options.most_mask_calls)) {
        card.masks = first_row_text(*masks);
        card.tree = tree_text(*masks);
        crafted = masks->calls;
      }
    std::optional<Answer> residue;
    if (options.most_mask_calls > 0)
      for (Answer& answer : crafted_calls(subject, shape)) {
        if (answer.line.starts_with(kCancelling) && !residue)
          residue = std::move(answer);
        else
          (answer.line.starts_with(kTiny) ? tiny : crafted).push_back(std::move(answer));
      }
    card.line = first->line;
    const auto shows = [](const Answer& answer) {
      const auto zeros = std::ranges::count(answer.got, 0.0);
      return 4 * zeros < static_cast<std::ptrdiff_t>(answer.got.size());
    };
    // What shows most is searched; the rest confirms.
    const bool sharp = residue && shows(*residue);
    if (residue) crafted.insert(crafted.begin(), *residue);
    card.sharp = sharp;
    // Found on one answer, confirmed by the others.
    bool fitted = false;  // something fitted the last one
    const auto found_on = [&](const Answer& base) {
      std::vector<RowPiece> pieces = find(base, stored_as, known, subject.a_element(), subject.b_element(),
                                          options, !first->a_scale.empty() || !first->b_scale.empty());
      fitted = std::ranges::any_of(pieces, [](const RowPiece& p) { return p.schedule.has_value(); });
      if (&base != &*first) confirm(pieces, *first, stored_as);
      for (const Answer& answer : crafted)
        if (&base != &answer) confirm(pieces, answer, stored_as);
      return pieces;
    };
    // Few rounding errors say more than many sums that the store rounds.
    const bool some = residue && 16 * std::ranges::count_if(residue->got, [](double x) { return x != 0; }) >=
                                     std::ssize(residue->got);
    card.pieces = found_on(some ? crafted.front() : *first);
    if (some && !sharp && !all_found(card.pieces)) card.pieces = found_on(*first);
    // What hid in a store of 8 bits, or where sums are short, an answer that refuted it shows: the search
    // goes on there.
    const auto has_time = [&] {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      return spent.count() < kSearches * options.search_seconds;
    };
    for (std::size_t i = 0; i < crafted.size() && (!sharp || fitted) && has_time() && !all_found(card.pieces);
         ++i) {
      std::vector<RowPiece> pieces = found_on(crafted[i]);
      if (all_found(pieces)) card.pieces = std::move(pieces);
    }
    // A kernel that flushes subnormals is no other schedule: what it does there is said apart.
    for (const Answer& answer : tiny) {
      std::vector<RowPiece> pieces = card.pieces;
      confirm(pieces, answer, stored_as);
      std::int64_t unequal = 0;
      for (const RowPiece& p : pieces) unequal += p.schedule ? 0 : p.unequal;
      if (unequal == 0)
        card.pieces = std::move(pieces);
      else
        card.tiny = fmt::format("{} of {} outputs of subnormal size differ: flushed, or read as zero",
                                unequal, answer.got.size());
    }
    if (!card.tiny.empty()) tiny.clear();
    crafted.insert(crafted.end(), tiny.begin(), tiny.end());
    const std::int64_t enough = std::max(options.least_outputs, options.most_outputs);
    for (std::uint64_t seed = kFirstSeed + 1;
         seed <= kFirstSeed + 1 ||
         (card.compared() < enough && seed < static_cast<std::uint64_t>(options.most_draws));
         ++seed) {
      if (std::ranges::none_of(card.pieces, [](const RowPiece& p) { return p.schedule.has_value(); })) break;
      const std::optional<Answer> next = subject.drawn(shape, seed);
      if (!next) break;
      confirm(card.pieces, *next, stored_as);
      card.last_seed = seed;
    }
  } catch (const std::runtime_error& failure) {
    card.refused = failure.what();
    finish();
    return card;
  }
  if (!card.pieces.empty() && card.pieces.front().schedule) {
    std::vector<const Answer*> answers{&*first};
    for (const Answer& answer : crafted) answers.push_back(&answer);
    card.evidence = evidence_of(card.pieces.front(), answers, stored_as);
  }
  finish();
  return card;
}

}  // namespace assay
