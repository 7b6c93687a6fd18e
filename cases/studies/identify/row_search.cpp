// The schedule of a kernel on rows among hypotheses: step by step on inputs that isolate one, then every bit
// of drawn ones.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "cases/studies/identify/row_asked.hpp"
#include "cases/studies/identify/row_calls.hpp"
#include "cases/studies/identify/row_numbers.hpp"
#include "cases/studies/identify/rows.hpp"
#include "reference/error.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr std::size_t kMostAlike = 256;   // hypotheses that are kept side by side
constexpr std::size_t kMostSquares = 64;  // of layernorm, each of which is tried with every mean
constexpr int kMostRounds = 3;
constexpr std::int64_t kFurther = 4096;    // hypotheses that are tried behind the first that fits
constexpr std::int64_t kFewFurther = 256;  // where a narrow store leaves many alike

class Search {
 public:
  Search(RowSubject& subject, std::int64_t rows, std::int64_t cols, RowCard& card)
      : subject_(subject), rows_(rows), cols_(cols), card_(card) {}

  static constexpr std::int64_t kFewRows = 16;  // as many as row_sums adds side by side

  bool draw_first() {
    std::optional<RowAnswer> drawn = first_rows(subject_, rows_, cols_, kFewRows, last_seed);
    if (!drawn) return false;
    card_.line = drawn->line;
    hides_sums = drawn->in.stored_as != "f32";
    // Each shows as many outputs as it has columns.
    constexpr std::int64_t kFirstShown = 1 << 11;
    for (std::int64_t shown = 0; shown < kFirstShown; shown += cols_) {
      std::optional<RowAnswer> more = ask_midpoints(subject_, rows_, cols_, drawn->in, kFewRows, ++midpoints);
      if (!more) break;
      asked_.push_back(std::make_unique<Asked>(std::move(*more), kFewRows));
      hides_sums = false;
    }
    asked_.push_back(std::make_unique<Asked>(std::move(*drawn), kFewRows));
    return true;
  }

  // The hypotheses that hold on all that was asked so far, the plainest first.
  std::vector<RowSchedule> find(const std::vector<RowSchedule>& known) {
    std::vector<RowSchedule> alike;
    // Where the store hides most, few others can be told from what is known.
    const bool narrow = first().answer.in.stored_as != "f32" && !known.empty();
    for (const RowSchedule& s : narrow ? beside(known, cols_) : known)
      if (step_at_odds(s, first().answer.in).empty() && holds(s)) alike.push_back(s);
    if (!alike.empty() || (narrow && hides_sums)) return alike;
    if (subject_.op() == "wht") {
      alike = all_words("wht", first().answer.in);
    } else if (subject_.op() == "layernorm") {
      alike = layernorm();
    } else {
      const bool exponentials = subject_.op() != "rmsnorm";
      std::vector<RowSchedule> words = all_words(subject_.op(), first().answer.in);
      if (subject_.op() == "softmax") words = fit_with_any_sum(by_bare_exponentials(words), first().answer);
      alike = one_sum(first(), words, exponentials ? &RowSchedule::sum : &RowSchedule::squares);
    }
    std::erase_if(alike, [&](const RowSchedule& s) { return !holds(s); });
    return alike;
  }

  bool holds(const RowSchedule& s) {
    return std::ranges::all_of(asked_, [&](const auto& a) { return a->fits(s); });
  }
  Asked& first() { return *asked_.front(); }
  std::vector<std::unique_ptr<Asked>>& asked() { return asked_; }

  // Without a schedule: of the plain ones, the one that gives most of the drawn outputs.
  void nearest() {
    card_.unequal = INT64_MAX, card_.compared = first().outputs();
    for (RowSchedule s : all_words(subject_.op(), first().answer.in))
      for (const char* sum : {"acc=f32", "acc=f32 lanes=8", "acc=f32 lanes=16", "acc=f64"}) {
        if (s.has_sum()) s.sum = parse_schedule(sum);
        if (s.has_squares()) s.squares = parse_schedule(sum);
        const std::int64_t unequal = first().unequal(s, card_.unequal);
        if (unequal < card_.unequal) card_.unequal = unequal, card_.nearest = s;
      }
  }

 private:
  static constexpr std::uint64_t kNarrowCalls = 4;  // of balanced rows, where one shows few bits

  bool cut_short(bool now) {
    is_cut_short |= now;
    return now;
  }
  std::int64_t further_hypotheses() { return first().answer.in.stored_as == "f32" ? kFurther : kFewFurther; }
  // Softmax on rows that store their exponentials as they are: the exponentials that have every bit.
  std::vector<RowSchedule> by_bare_exponentials(std::vector<RowSchedule> words) {
    const std::string& store = first().answer.in.stored_as;
    const RowInputs& in = first().answer.in;
    if (cols_ < 2 || in.temperature != 1 || in.softcap > 0 || !in.visible.empty() || !in.sinks.empty())
      return words;
    std::optional<RowAnswer> bare =
        subject_.crafted(rows_, cols_, bare_exponentials(rows_, cols_, store), "bare exponentials");
    if (!bare) return words;
    Asked asked(std::move(*bare), kFewRows);
    BareExponentials found = fit_bare_exponentials(std::move(words), asked);
    exponential_ = found.against;
    if (found.unknown) card_.fields.push_back(*found.unknown);
    if (found.words.empty()) return {};
    asked_.push_back(std::make_unique<Asked>(std::move(asked)));
    return std::move(found.words);
  }

  // Ops of one sum: each schedule of it with each choice of words.
  std::vector<RowSchedule> one_sum(Asked& asked, const std::vector<RowSchedule>& words,
                                   Schedule RowSchedule::* sum) {
    std::vector<RowSchedule> found;
    const bool products = sum == &RowSchedule::squares;
    std::optional<FactorSieve> sieve;
    if (products) {
      sieve.emplace(words);
      sieve->add(asked.few, asked.answer.got);
      for (const auto& each : asked_) sieve->add(each->all, each->answer.got);
    }
    std::int64_t further = further_hypotheses();
    for (const Schedule& candidate : sum_schedules(cols_, products)) {
      if (cut_short(!found.empty() && --further < 0)) break;
      if (products) {
        for (RowSchedule s : sieve->fitting(candidate))
          if (holds(s)) found.push_back(s);
      } else {
        std::map<std::string, SumsOfRows> sums;  // by the words that change the terms
        for (RowSchedule s : words) {
          s.*sum = candidate;
          SumsOfRows& of = sums[words_of_terms(s)];
          if (of.sum.empty()) of = asked.few.sums(s);
          if (asked.few_fit(s, of) && holds(s)) found.push_back(s);
        }
      }
      if (cut_short(found.size() >= kMostAlike)) break;
    }
    return found;
  }

  // Running moments, on one row first.
  std::vector<RowSchedule> by_moments(const std::vector<RowSchedule>& words) {
    std::vector<RowSchedule> found, running;
    std::ranges::copy_if(words, std::back_inserter(running),
                         [](const RowSchedule& s) { return s.has_moments(); });
    if (running.empty()) return found;
    RowReplay one(Asked::first_rows(first().answer.in, 1));
    std::vector<std::size_t> any(running.size());
    std::iota(any.begin(), any.end(), std::size_t{0});
    std::map<float, RowFactors> factors;  // by the first row's mean
    for (const MomentsSchedule& moments : moments_schedules(cols_, first().answer.in.stored_as != "f32")) {
      RowSchedule with = running.front();
      with.moments = moments;
      const SumsOfRows of_one = one.sums(with);
      const float mean = one.mean(with, of_one.sum[0]);
      std::optional<SumsOfRows> of_few;
      const RowFactors& allowed =
          factors.try_emplace(mean, one, first().answer.got, running, mean).first->second;
      for (const std::size_t w : allowed.fitting(of_one.squares, any)) {
        RowSchedule s = running[w];
        s.moments = moments;
        if (!of_few) of_few = first().few.sums(s);
        if (first().few_fit(s, *of_few) && holds(s)) found.push_back(s);
      }
      if (cut_short(found.size() >= kMostAlike)) break;
    }
    return found;
  }

  // The squares on rows whose mean is 0 in every order; the mean on drawn rows, with the squares that were
  // found.
  std::vector<RowSchedule> layernorm() {
    std::vector<RowSchedule> words = all_words("layernorm", first().answer.in), squares,
                             found = by_moments(words);
    if (!found.empty()) return found;
    std::erase_if(words, [](const RowSchedule& s) { return s.has_moments(); });
    std::vector<std::unique_ptr<Asked>> balanced;
    const std::uint64_t calls = first().answer.in.stored_as == "f32" ? 1 : kNarrowCalls;
    for (std::uint64_t seed = 1; seed <= calls; ++seed) {
      std::optional<RowAnswer> more =
          ask_balanced(subject_, rows_, cols_, first().answer.in, kFewRows, 4 * kFewRows, seed);
      if (!more) return found;
      balanced.push_back(std::make_unique<Asked>(std::move(*more), kFewRows));
    }
    for (RowSchedule& s : words) s.sum = parse_schedule("acc=f32");
    FactorSieve sieve(words);
    sieve.add(balanced.front()->few, balanced.front()->answer.got);
    for (const auto& asked : balanced) sieve.add(asked->all, asked->answer.got);
    std::set<std::uint64_t> additions;  // of other spellings one is enough
    std::int64_t further = further_hypotheses();
    for (const Schedule& candidate : sum_schedules(cols_, true)) {
      if (cut_short(!squares.empty() && --further < 0)) break;
      if (!additions.insert(signature(plan_sum(candidate, cols_))).second) continue;
      for (const RowSchedule& s : sieve.fitting(candidate))
        if (std::ranges::all_of(balanced, [&](const auto& asked) { return asked->fits(s); }))
          squares.push_back(s);
      if (cut_short(squares.size() >= kMostSquares)) break;
    }
    std::ranges::move(balanced, std::back_inserter(asked_));
    std::vector<std::pair<RowSchedule, RowNumbers>> by_means;
    for (const RowSchedule& s : squares)
      if (RowNumbers means = means_of(first(), s); !means.none()) by_means.emplace_back(s, std::move(means));
    const RowInputs& in = first().few.inputs();
    const SummedRows rows(in.x, in.rows, in.cols);
    further = further_hypotheses();
    for (const Schedule& candidate : sum_schedules(cols_, false)) {
      if (cut_short(!found.empty() && --further < 0)) break;
      const std::vector<double> sums = rows.sums(candidate);
      for (const auto& [with, means] : by_means) {
        std::size_t r = 0;
        while (r < sums.size() && means.allow(r, first().few.mean(with, sums[r]))) ++r;
        if (r < sums.size()) continue;
        RowSchedule s = with;
        s.sum = candidate;
        if (first().few_fit(s, first().few.sums(s)) && holds(s)) found.push_back(s);
      }
      if (cut_short(found.size() >= kMostAlike)) break;
    }
    return found;
  }

 public:
  std::int64_t last_seed = 1;   // of the drawn answers
  std::uint64_t midpoints = 0;  // seeds of such calls so far
  bool hides_sums = false;      // the store does, and no inputs show them
  bool is_cut_short = false;    // so many hypotheses held that others were not tried
  std::string exponential_;     // what told the exponential from the others

 private:
  RowSubject& subject_;
  std::int64_t rows_, cols_;
  RowCard& card_;
  std::vector<std::unique_ptr<Asked>> asked_;  // the one that refutes most first
};

}  // namespace

RowCard identify_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                      const std::vector<RowSchedule>& given, const RowSearchOptions& options) {
  std::vector<RowSchedule> known;
  std::ranges::copy_if(given, std::back_inserter(known),
                       [&](const RowSchedule& s) { return s.op == subject.op(); });
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
    std::vector<RowSchedule> alike;
    const auto compared = [&] {
      std::int64_t outputs = 0;
      for (const auto& asked : search.asked()) outputs += asked->outputs();
      return outputs;
    };
    const auto keep = [&](RowAnswer answer) {
      search.asked().push_back(std::make_unique<Asked>(std::move(answer), rows));
      Asked& asked = *search.asked().back();
      std::vector<RowSchedule> kept;
      for (const RowSchedule& s : alike)
        if (asked.fits(s)) kept.push_back(s);
      if (kept.empty() && !alike.empty())
        card.nearest = alike.front(), card.unequal = asked.unequal(alike.front());
      alike = std::move(kept);
    };
    auto seed = static_cast<std::uint64_t>(search.last_seed) + 1;
    bool is_swamped = false;
    // What further answers refute may have hidden what holds: with those answers the search goes on, but
    // where the store hides most.
    const bool narrow = search.first().answer.in.stored_as != "f32";
    const int rounds = search.hides_sums ? 1 : kMostRounds;
    bool goes_on = true;
    for (int round = 0; round < rounds && alike.empty() && goes_on; ++round) {
      search.is_cut_short = false, card.unequal = 0;
      alike = search.find(known);
      goes_on = search.is_cut_short || (narrow && !alike.empty());
      if (alike.size() > 1 && !is_swamped) {
        is_swamped = true;
        if (std::optional<RowAnswer> more = ask_swamped(subject, rows, cols, search.first().answer.in))
          keep(std::move(*more));
      }
      // A row has one sum, however many outputs: while several hypotheses are left, a few draws more tell
      // most of them apart.
      const std::uint64_t next = seed;
      const auto wanted = [&] {
        const bool more_outputs =
            compared() < options.outputs && seed <= static_cast<std::uint64_t>(options.most_draws);
        constexpr std::uint64_t kDraws = 6, kNarrowDraws = 24;
        return seed == 2 || more_outputs || (alike.size() > 1 && seed < next + kDraws) ||
               (narrow && !known.empty() && seed < next + kNarrowDraws);
      };
      for (; !alike.empty() && wanted(); ++seed) {
        std::optional<RowAnswer> more = subject.drawn(rows, cols, seed);
        if (!more) break;
        keep(std::move(*more));
      }
      // Few outputs differ where a sum is a last place off in some rows.
      constexpr std::int64_t kShown = 1 << 13;
      for (std::int64_t shown = 0; narrow && !alike.empty() && shown < kShown; shown += cols) {
        std::optional<RowAnswer> more = ask_midpoints(subject, rows, cols, search.first().answer.in,
                                                      Search::kFewRows, ++search.midpoints);
        if (!more) break;
        keep(std::move(*more));
      }
    }
    card.last_seed = seed - 1, card.compared = compared();
    if (alike.empty()) {
      if (card.unequal == 0) search.nearest();
      return finish();
    }
    card.schedule = std::ranges::min(
        alike, {}, [](const RowSchedule& s) { return print_schedule(s).size(); });  // the plainest
    show_against(search.asked(), search.exponential_, alike, options.outputs, card);
  } catch (const std::runtime_error& failure) {
    card.refused = failure.what();
  }
  return finish();
}

}  // namespace assay
