// The schedule of a kernel on rows among hypotheses: step by step on inputs that isolate one, then every bit of drawn ones.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <set>
#include <stdexcept>

#include "cases/studies/identify/hypotheses.hpp"
#include "cases/studies/identify/row_calls.hpp"
#include "cases/studies/identify/rows.hpp"
#include "reference/error.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr std::size_t kMostAlike = 256;   // hypotheses that are kept side by side
constexpr std::size_t kMostSquares = 64;  // of layernorm, each of which is tried with every mean
constexpr std::int64_t kFurther = 4096;   // hypotheses that are tried behind the first that fits

// One answer, and a few of its rows, on which most hypotheses fail.
struct Asked {
  RowAnswer answer;
  RowReplay few, all;

  Asked(RowAnswer a, std::int64_t rows)
      : answer(std::move(a)), few(first_rows(answer.in, rows)), all(answer.in) {}
  static RowInputs first_rows(const RowInputs& in, std::int64_t rows) {
    RowInputs part = in;
    part.rows = std::min(rows, in.rows);
    part.x.resize(static_cast<std::size_t>(part.rows * in.cols));
    return part;
  }
  bool few_fit(const RowSchedule& s, const SumsOfRows& sums) {
    return few.unequal(s, sums, answer.got, 1) == 0;
  }
  std::int64_t unequal(const RowSchedule& s, std::int64_t most = INT64_MAX) {
    return all.unequal(s, all.sums(s), answer.got, most);
  }
  bool fits(const RowSchedule& s) { return unequal(s, 1) == 0; }
  std::int64_t outputs() const { return static_cast<std::int64_t>(answer.got.size()); }
};

// Every choice of the op's words.
std::vector<RowSchedule> all_words(const std::string& op) {
  std::vector<RowSchedule> list(1);
  list[0].op = op;
  for (const RowScheduleKey* key : row_keys(op)) {
    std::vector<RowSchedule> longer;
    for (const RowSchedule& s : list)
      for (const std::string_view word : row_words(*key)) longer.push_back(s.with(key->name, word));
    list = std::move(longer);
  }
  return list;
}

std::vector<Schedule> sum_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list = double_schedules(n, products);
  const std::vector<Schedule> lanes = lane_schedules(n, products);
  list.insert(list.begin(), lanes.begin(), lanes.end());
  return list;
}

class Search {
 public:
  Search(RowSubject& subject, std::int64_t rows, std::int64_t cols, RowCard& card)
      : subject_(subject), rows_(rows), cols_(cols), card_(card) {}

  bool draw_first() {
    std::optional<RowAnswer> first = first_rows(subject_, rows_, cols_, kFewRows, last_seed);
    if (!first) return false;
    card_.line = first->line;
    asked_.push_back(std::make_unique<Asked>(std::move(*first), kFewRows));
    return true;
  }

  // The hypotheses that hold on all that was asked so far, the plainest first.
  std::vector<RowSchedule> find(const std::vector<RowSchedule>& known) {
    std::vector<RowSchedule> alike;
    for (const RowSchedule& s : known)
      if (s.op == subject_.op() && drawn().fits(s)) alike.push_back(s);
    if (!alike.empty()) return alike;
    if (subject_.op() == "wht") {
      alike = all_words("wht");
    } else if (subject_.op() == "layernorm") {
      alike = layernorm();
    } else {
      const bool exponentials = subject_.op() != "rmsnorm";
      std::vector<RowSchedule> words = all_words(subject_.op());
      if (subject_.op() == "softmax") words = by_bare_exponentials(words);
      alike = one_sum(drawn(), words, exponentials ? &RowSchedule::sum : &RowSchedule::squares);
    }
    std::erase_if(alike, [&](const RowSchedule& s) { return !holds(s); });
    return alike;
  }

  bool holds(const RowSchedule& s) {
    return std::ranges::all_of(asked_, [&](const auto& a) { return a->fits(s); });
  }
  Asked& drawn() { return *asked_.front(); }
  std::vector<std::unique_ptr<Asked>>& asked() { return asked_; }

  // Without a schedule: of the plain ones, the one that gives most of the drawn outputs.
  void nearest() {
    card_.unequal = INT64_MAX, card_.compared = drawn().outputs();
    for (RowSchedule s : all_words(subject_.op()))
      for (const char* sum : {"acc=f32", "acc=f32 lanes=8", "acc=f32 lanes=16", "acc=f64"}) {
        if (s.has_sum()) s.sum = parse_schedule(sum);
        if (s.has_squares()) s.squares = parse_schedule(sum);
        const std::int64_t unequal = drawn().unequal(s, card_.unequal);
        if (unequal < card_.unequal) card_.unequal = unequal, card_.nearest = s;
      }
  }

 private:
  static constexpr std::int64_t kFewRows = 16;  // as many as row_sums adds side by side

  // Softmax on rows that store their exponentials as they are: the exponentials that have every bit.
  std::vector<RowSchedule> by_bare_exponentials(std::vector<RowSchedule> words) {
    const std::string& store = drawn().answer.in.stored_as;
    if (cols_ < 2) return words;
    std::optional<RowAnswer> bare =
        subject_.crafted(rows_, cols_, bare_exponentials(rows_, cols_, store), "bare exponentials");
    if (!bare) return words;
    Asked asked(std::move(*bare), kFewRows);
    std::int64_t least = INT64_MAX;
    std::string best;
    std::map<std::string, std::int64_t> unequal;  // by the exponential
    for (RowSchedule& s : words) {
      s.sum = parse_schedule("acc=f32");
      const std::string exp(s.word("exp"));
      if (!unequal.contains(exp)) unequal[exp] = asked.unequal(s);
      if (unequal[exp] < least) least = unequal[exp], best = exp;
    }
    for (const auto& [exp, count] : unequal)
      if (least == 0 && exp != best)
        exponential_ += fmt::format("{}exp={}: {} of {} bare exponentials differ",
                                    exponential_.empty() ? "" : "; ", exp, count, asked.outputs());
    if (least > 0) {
      card_.fields.push_back(
          {"exp", best,
           fmt::format("none of the exponentials known here; nearest {}: {} of {} bare ones equal", best,
                       asked.outputs() - least, asked.outputs()),
           false});
      return {};
    }
    std::erase_if(words, [&](const RowSchedule& s) { return unequal[std::string(s.word("exp"))] != 0; });
    asked_.push_back(std::make_unique<Asked>(std::move(asked)));
    return words;
  }

  // Ops of one sum: each schedule of it with each choice of words.
  std::vector<RowSchedule> one_sum(Asked& asked, const std::vector<RowSchedule>& words,
                                   Schedule RowSchedule::* sum) {
    std::vector<RowSchedule> found;
    const bool products = sum == &RowSchedule::squares;
    std::int64_t further = kFurther;
    for (const Schedule& candidate : sum_schedules(cols_, products)) {
      if (!found.empty() && --further < 0) break;
      std::map<std::string, SumsOfRows> sums;  // by the exponential, the one word that changes the terms
      for (RowSchedule s : words) {
        s.*sum = candidate;
        SumsOfRows& of = sums[products ? "" : std::string(s.word("exp"))];
        if (of.sum.empty() && of.squares.empty()) of = asked.few.sums(s);
        if (asked.few_fit(s, of) && holds(s)) found.push_back(s);
      }
      if (found.size() >= kMostAlike) break;
    }
    return found;
  }

  // The squares on rows whose mean is 0 in every order; the mean on drawn rows, with the squares that were found.
  std::vector<RowSchedule> layernorm() {
    std::vector<RowSchedule> words = all_words("layernorm"), found, welford, squares;
    for (const RowSchedule& s : words)
      if (!s.has_sum()) welford.push_back(s);
    std::erase_if(words, [](const RowSchedule& s) { return !s.has_sum(); });
    for (const RowSchedule& s : welford)
      if (drawn().fits(s)) found.push_back(s);
    if (!found.empty()) return found;
    std::optional<RowAnswer> balanced =
        ask_balanced(subject_, rows_, cols_, drawn().answer.in.stored_as, 4 * kFewRows);
    if (!balanced) return found;
    Asked asked(std::move(*balanced), kFewRows);
    for (RowSchedule& s : words) s.sum = parse_schedule("acc=f32");
    std::set<std::uint64_t> additions;  // of other spellings one is enough
    std::int64_t further = kFurther;
    for (const Schedule& candidate : sum_schedules(cols_, true)) {
      if (!squares.empty() && --further < 0) break;
      if (!additions.insert(signature(plan_sum(candidate, cols_))).second) continue;
      SumsOfRows sums;
      for (RowSchedule s : words) {
        s.squares = candidate;
        if (sums.squares.empty()) sums = asked.few.sums(s);
        if (asked.few_fit(s, sums) && asked.fits(s)) squares.push_back(s);
      }
      if (squares.size() >= kMostSquares) break;
    }
    asked_.push_back(std::make_unique<Asked>(std::move(asked)));
    // Sums that are equal in every row have equal consequences: each is tried once.
    std::map<std::vector<double>, std::vector<RowSchedule>> by_sums;
    const RowInputs& in = drawn().few.inputs();
    const SummedRows rows(in.x, in.rows, in.cols);
    further = kFurther;
    for (const Schedule& candidate : sum_schedules(cols_, false)) {
      if (!found.empty() && --further < 0) break;
      RowSchedule s = words.front();
      s.sum = candidate;
      const std::vector<double> sums = rows.sums(candidate);
      const auto seen = by_sums.find(sums);
      std::vector<RowSchedule> fitting;
      for (RowSchedule with : seen == by_sums.end() ? squares : seen->second) {
        with.sum = candidate;
        if (drawn().few_fit(with, drawn().few.sums(with))) fitting.push_back(with);
      }
      for (const RowSchedule& each : fitting)
        if (holds(each)) found.push_back(each);
      if (seen == by_sums.end()) by_sums.emplace(sums, std::move(fitting));
      if (found.size() >= kMostAlike) break;
    }
    return found;
  }

 public:
  std::int64_t last_seed = 1;  // of the drawn answers
  std::string exponential_;    // what told the exponential from the others

 private:
  RowSubject& subject_;
  std::int64_t rows_, cols_;
  RowCard& card_;
  std::vector<std::unique_ptr<Asked>> asked_;  // the drawn answer of seed 1 first
};

std::string value_in(const std::string& printed, const std::string& field) {
  const std::string text = " " + printed + " ";
  const std::size_t at = text.find(" " + field + "=");
  if (at == std::string::npos) {
    const std::string bare = field.substr(field.find('.') + 1);
    for (const ScheduleKey& key : schedule_keys())
      if (key.name == bare) return std::string(key.fallback);
    return "";
  }
  const std::size_t value = at + field.size() + 2;
  return text.substr(value, text.find(' ', value) - value);
}

// Whether two schedules make the same bits of any terms: the same additions and quotients.
bool same_steps(const RowSchedule& a, const RowSchedule& b, std::int64_t cols) {
  const auto same_sum = [&](const Schedule& x, const Schedule& y) {
    return signature(plan_sum(x, cols)) == signature(plan_sum(y, cols));
  };
  if (a.has_squares() != b.has_squares() || a.has_sum() != b.has_sum()) return false;
  if (!same_sum(a.sum, b.sum) || !same_sum(a.squares, b.squares)) return false;
  for (const RowScheduleKey* key : row_keys(a.op)) {
    const bool exact = key->name == "mean" && std::has_single_bit(static_cast<std::uint64_t>(cols));
    if (!exact && a.word(key->name) != b.word(key->name)) return false;
  }
  return true;
}

// What every other value of each field would have changed, of `least` outputs or more; one that changes none of all leaves the field open.
void show_against(Search& search, const std::vector<RowSchedule>& alike, std::int64_t least, RowCard& card) {
  const std::string own = print_schedule(*card.schedule);
  for (const TamperedRows& t : tampered(*card.schedule, search.drawn().answer.in.cols)) {
    if (same_steps(t.schedule, *card.schedule, search.drawn().answer.in.cols)) continue;
    std::int64_t unequal = 0, outputs = 0;
    for (const auto& asked : search.asked()) {
      if (unequal > 0 && outputs >= least) break;
      try {
        unequal += asked->unequal(t.schedule), outputs += asked->outputs();
      } catch (const InputError&) {
        continue;
      }
    }
    auto field = std::ranges::find(card.fields, t.field, &CardField::field);
    if (field == card.fields.end())
      field = card.fields.insert(card.fields.end(), CardField{t.field, value_in(own, t.field), "", true});
    const std::string name = t.field.substr(t.field.find('.') + 1);
    field->against += fmt::format("{}{}={}: {} of {} differ", field->against.empty() ? "" : "; ", name,
                                  value_in(print_schedule(t.schedule), t.field), unequal, outputs);
    if (unequal == 0) field->concluded = false;
  }
  if (!search.exponential_.empty())
    if (auto exp = std::ranges::find(card.fields, "exp", &CardField::field); exp != card.fields.end())
      exp->against = search.exponential_;
  card.also = std::ranges::count_if(alike, [&](const RowSchedule& s) {
    return !same_steps(s, *card.schedule, search.drawn().answer.in.cols);
  });
}

}  // namespace

RowCard identify_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                      const std::vector<RowSchedule>& known, const RowSearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const int before = subject.calls;
  RowCard card;
  card.nearest.op = subject.op();
  Search search(subject, rows, cols, card);
  const auto finish = [&]() -> RowCard& {
    card.calls = subject.calls - before, card.kernels = subject.kernels;
    card.declared_contract = subject.declared_contract, card.declared_path = subject.declared_path;
    card.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return card;
  };
  try {
    if (!search.draw_first()) {
      card.refused = "the kernel does not take this shape";
      return finish();
    }
    std::vector<RowSchedule> alike = search.find(known);
    for (const auto& asked : search.asked()) card.compared += asked->outputs();
    const auto next = static_cast<std::uint64_t>(search.last_seed) + 1;
    card.last_seed = next - 1;
    // A row has one sum, however many outputs: while several hypotheses are left, a few draws more tell most of them apart.
    const auto wanted = [&](std::uint64_t seed) {
      const bool more_outputs =
          card.compared < options.outputs && seed <= static_cast<std::uint64_t>(options.most_draws);
      return seed == 2 || more_outputs || (alike.size() > 1 && seed < next + 6);
    };
    for (std::uint64_t seed = next; !alike.empty() && wanted(seed); ++seed) {
      std::optional<RowAnswer> more = subject.drawn(rows, cols, seed);
      if (!more) break;
      search.asked().push_back(std::make_unique<Asked>(std::move(*more), rows));
      Asked& asked = *search.asked().back();
      std::vector<RowSchedule> kept;
      for (const RowSchedule& s : alike)
        if (asked.fits(s)) kept.push_back(s);
      if (kept.empty()) card.nearest = alike.front(), card.unequal = asked.unequal(alike.front());
      alike = std::move(kept);
      card.compared += asked.outputs(), card.last_seed = seed;
    }
    if (alike.empty()) {
      if (card.unequal == 0) search.nearest();
      return finish();
    }
    card.schedule = std::ranges::min(
        alike, {}, [](const RowSchedule& s) { return print_schedule(s).size(); });  // the plainest
    show_against(search, alike, options.outputs, card);
  } catch (const std::runtime_error& failure) {
    card.refused = failure.what();
  }
  return finish();
}

}  // namespace assay
