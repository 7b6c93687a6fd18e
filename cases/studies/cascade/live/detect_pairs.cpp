// Detectors that compare answers: of one prompt at different times and by different paths, and of different
// prompts.
//
// A correct server may round differently when a prefix comes from the cache (another batch shape), so that
// unequal bits alone accuse nobody. The yardstick is measured on the same server: the smallest distance that
// exchanging one word of the prompt makes. Rounding that does as much as another word is no rounding.
// Besides, a distance must exceed everything that plain repetition showed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cases/studies/cascade/live/compare.hpp"
#include "cases/studies/cascade/live/detectors.hpp"

namespace assay::live {
namespace {

using Group = std::vector<const Exchange*>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Group group(const std::vector<Exchange>& all, const std::string& phase, const std::string& prompt,
            Mode mode) {
  Group g;
  for (const auto& e : all)
    if (e.reply.answer && e.mode == mode && e.prompt == prompt && (phase.empty() || e.phase == phase))
      g.push_back(&e);
  return g;
}

Distance between(const Exchange* a, const Exchange* b) {
  return distance(*a->reply.answer, *b->reply.answer);
}

// The largest distance of any two.
double spread(const Group& g) {
  double most = 0;
  for (const auto* a : g)
    for (const auto* b : g) most = std::max(most, between(a, b).value);
  return most;
}

std::string name(const char* kind, int n) { return fmt::format("{}{}", kind, n + 1); }

class Pairs {
 public:
  explicit Pairs(const Transcript& t) : t_(t), all_(t.exchanges) {
    for (const auto& e : all_) fresh_ = fresh_ || (e.mode == Mode::fresh && e.reply.answer);
    for (int n = 0; n < kPrompts; ++n)
      noise_ = std::max(noise_, spread(group(all_, "before", name("small", n), steady())));
  }

  // The mode in which plain repetition takes one path.
  Mode steady() const { return fresh_ ? Mode::fresh : Mode::warm; }

  // The smallest distance to an answer whose prompt differs in one word, or (large, behind) in its signs.
  double yardstick(const std::string& prompt) const {
    double least = kInfinity;
    const bool small = prompt.starts_with("small");
    const std::string kind = prompt.substr(0, prompt.size() - 1);
    std::vector<std::string> others;
    for (int n = 0; n < (small ? kEdits : kPrompts); ++n)
      others.push_back(small ? fmt::format("{}_edit{}", prompt, n + 1) : fmt::format("{}{}", kind, n + 1));
    for (const auto& other : others)
      for (const auto& a : all_)
        for (const auto& b : all_)
          if (other != prompt && a.prompt == prompt && b.prompt == other && a.reply.answer &&
              b.reply.answer && (a.phase == "after") == (b.phase == "after"))
            if (const Distance d = between(&a, &b); !d.cut || d.at > 0) least = std::min(least, d.value);
    return least;
  }

  // Each of `judged` against the nearest of `truth`.
  void compare(Verdict& v, const Group& truth, const Group& judged, const std::string& prompt, double noise) {
    if (truth.empty() || judged.empty()) return;
    const double limit = yardstick(prompt);
    for (const auto* e : judged) {
      Distance nearest;
      const Exchange* of = nullptr;
      for (const auto* a : truth)
        if (const Distance d = between(a, e); !of || d.value < nearest.value) nearest = d, of = a;
      ++compared_;
      // Infinite limit: there is nothing to measure by; only the loss of all numbers counts.
      const bool bad = nearest.value > 0 && nearest.value > noise && nearest.value >= limit;
      if (bad && unrepeatable_ && std::isfinite(nearest.value)) {
        ++undecided_;  // it would change without the cache, and without the large-range requests
        continue;
      }
      if (!bad) {
        rounding_ = std::max(rounding_, nearest.value);
        continue;
      }
      v.evidence.push_back(fmt::format(
          "{} {}: request {} ({} {}) against {} ({} {}): distance {:.3g}{}, one word makes {:.3g}; "
          "text '{}' against '{}'",
          prompt, nearest.forked ? "forked" : "same tokens", e->number, e->phase, to_string(e->mode),
          of->number, of->phase, to_string(of->mode), nearest.value, nearest.by_logprobs ? "" : " (by text)",
          limit, beginning(*e), beginning(*of)));
    }
  }

  Verdict finish(Verdict v, const std::string& clean) {
    if (v.evidence.empty() && undecided_ > 0) {
      v.summary = fmt::format("{} comparisons undecided: the server does not repeat itself", undecided_);
      compared_ = 0;
    }
    undecided_ = 0;
    if (!v.evidence.empty()) {
      v.outcome = Outcome::finding;
      v.summary = fmt::format("{} of {} comparisons", v.evidence.size(), compared_);
    } else if (compared_ > 0) {
      v.outcome = Outcome::clean;
      v.summary = fmt::format("{} comparisons, {}; largest distance {:.3g}", compared_, clean, rounding_);
    }
    compared_ = 0;
    rounding_ = 0;
    return v;
  }

  Verdict nondeterminism() {
    Verdict v{"nondeterminism",
              Outcome::not_run,
              "no repeated answer",
              {},
              "the same greedy request, sent again by the same path with nothing in between, gives the same "
              "tokens"};
    double most = 0;
    for (const char* phase : {"before", "after"})
      for (int n = 0; n < kPrompts; ++n) {
        const Group g = group(all_, phase, name("small", n), steady());
        for (std::size_t i = 1; i < g.size(); ++i) {
          const Distance d = between(g[i - 1], g[i]);
          ++compared_;
          most = std::max(most, d.value);
          unrepeatable_ = unrepeatable_ || d.forked;
          if (d.forked)
            v.evidence.push_back(fmt::format(
                "{}: requests {} and {} ({} {}) fork at {} {}, distance {:.3g}: '{}', '{}'", name("small", n),
                g[i - 1]->number, g[i]->number, phase, to_string(steady()), d.by_logprobs ? "token" : "byte",
                d.at, d.value, beginning(*g[i - 1]), beginning(*g[i])));
        }
      }
    rounding_ = most;
    return finish(std::move(v), most == 0 ? "all equal to the last bit" : "the same tokens");
  }

  Verdict changed_answer() {
    Verdict v{
        "changed_answer",
        Outcome::not_run,
        "no prompt was answered before and after",
        {},
        fmt::format(
            "after the large-range requests a prompt is answered as before: its distance stays below that of "
            "one exchanged word or within plain repetition ({:.3g}); and not all {} prompts go from one "
            "exactly repeated answer to another (chance {:.0e})",
            noise_, kPrompts, std::pow(0.1, kPrompts))};
    for (const Mode mode : {Mode::warm, Mode::fresh})
      for (int n = 0; n < kPrompts; ++n)
        compare(v, group(all_, "before", name("small", n), mode),
                group(all_, "after", name("small", n), mode), name("small", n), noise_);
    if (v.evidence.empty()) step(v);
    return finish(std::move(v), "answers as before");
  }

  Verdict poisoned_prefix() {
    Verdict v{
        "poisoned_prefix",
        Outcome::not_run,
        "no answer with and without a cached prefix",
        {},
        fmt::format(
            "an answer over a cached prefix is {}: its distance stays below that of one exchanged word or "
            "within plain repetition ({:.3g})",
            fresh_ ? "the answer without the cache" : "the first answer to that prompt", noise_)};
    const auto pair = [&](const char* phase, const std::string& prompt) {
      compare(v, group(all_, phase, prompt, fresh_ ? Mode::fresh : Mode::cold),
              group(all_, phase, prompt, Mode::warm), prompt, noise_);
    };
    for (int n = 0; n < kPrompts; ++n) pair("before", name("small", n));
    for (int n = 0; n < kPrompts; ++n) pair("trigger", name("large", n));
    for (int n = 0; n < kPrompts; ++n) pair("after", name("small", n));
    for (int n = 0; n < kPrompts; ++n) pair("after", name("behind", n));
    return finish(std::move(v), "cached prefixes change nothing");
  }

  Verdict collapse() {
    Verdict v{"collapse",
              Outcome::not_run,
              "the server gives no log-probabilities",
              {},
              "different prompts do not give the same log-probabilities in every digit, at least 4 different "
              "numbers"};
    std::set<std::pair<std::string, std::string>> seen;
    for (const auto& a : all_)
      for (const auto& b : all_) {
        if (a.number >= b.number || a.prompt == b.prompt || a.phase != b.phase || !a.reply.answer ||
            !b.reply.answer)
          continue;
        const auto& x = a.reply.answer->steps;
        const auto& y = b.reply.answer->steps;
        if (x.empty() || y.empty() || !finite(*a.reply.answer)) continue;
        ++compared_;
        std::set<double> numbers;
        bool same = x.size() == y.size();
        for (std::size_t i = 0; same && i < x.size(); ++i) {
          same = x[i].token == y[i].token && x[i].logprob == y[i].logprob && x[i].top == y[i].top;
          numbers.insert(x[i].logprob);
        }
        if (same && numbers.size() >= 4 && seen.emplace(a.prompt, b.prompt).second)
          v.evidence.push_back(
              fmt::format("{} and {}: requests {} and {} give {} equal log-probabilities: '{}'", a.prompt,
                          b.prompt, a.number, b.number, x.size(), beginning(a)));
      }
    return finish(std::move(v), "every prompt has numbers of its own");
  }

  Verdict order_dependence() {
    Verdict v{"order_dependence",
              Outcome::not_run,
              "needs --against: the report of a run on the server before its restart, with another --order",
              {},
              "what a prompt is answered does not depend on which request came first after the start"};
    if (t_.earlier.empty()) return v;
    double noise = noise_;
    for (int n = 0; n < kPrompts; ++n)
      noise = std::max(noise, spread(group(t_.earlier, "before", name("small", n), steady())));
    for (const char* kind : {"small", "large"})
      for (int n = 0; n < kPrompts; ++n) {
        const std::string phase = kind == std::string("small") ? "before" : "trigger";
        const Mode mode = fresh_ ? Mode::fresh : Mode::warm;
        compare(v, group(t_.earlier, phase, name(kind, n), mode), group(all_, phase, name(kind, n), mode),
                name(kind, n), noise);
      }
    if (compared_ == 0) v.summary = "the earlier report has no answer in common";
    return finish(std::move(v), fmt::format("as in the run with order {}", t_.earlier_order));
  }

  // The same prompts, answered by the same model with another KV type: how far apart, in the unit that one
  // word is.
  Verdict baseline() {
    Verdict v{"baseline",
              Outcome::not_run,
              "needs --baseline: the report of a run on the same model with another KV type",
              {},
              "of the prompts, at least half are answered nearer to the baseline than one exchanged word is"};
    if (t_.baseline.empty()) return v;
    std::vector<double> parts;  // distance / that of one word
    std::size_t forked = 0;
    double most = 0;
    for (const char* kind : {"small", "large"})
      for (int n = 0; n < kPrompts; ++n) {
        const std::string prompt = name(kind, n);
        const std::string phase = kind == std::string("small") ? "before" : "trigger";
        const Group ours = group(all_, phase, prompt, steady()),
                    theirs = group(t_.baseline, phase, prompt, steady());
        if (ours.empty() || theirs.empty()) continue;
        const Distance d = between(theirs.front(), ours.front());
        const double word = yardstick(prompt);
        forked += d.forked ? 1 : 0;
        most = std::max(most, d.value);
        parts.push_back(d.value > 0 ? d.value / word : 0);
        if (d.value > 0 && d.value >= word)
          v.evidence.push_back(
              fmt::format("{}: request {} against the baseline's {}: distance {:.3g}, one word makes {:.3g}",
                          prompt, ours.front()->number, theirs.front()->number, d.value, word));
      }
    if (parts.empty()) {
      v.summary = "the baseline has no answer in common";
      return v;
    }
    const bool bad = 2 * v.evidence.size() > parts.size();
    std::ranges::sort(parts);
    v.summary = fmt::format(
        "{} prompts, {} with other tokens; distance at most {:.3g}, in the middle {:.3g} of one word's",
        parts.size(), forked, most, parts[parts.size() / 2]);
    v.outcome = bad ? Outcome::finding : Outcome::clean;
    if (!bad) v.evidence.clear();
    return v;
  }

 private:
  const Transcript& t_;
  const std::vector<Exchange>& all_;
  bool fresh_ = false;
  double noise_ = 0;  // what plain repetition showed before the trigger
  double rounding_ = 0;
  std::size_t compared_ = 0, undecided_ = 0;
  bool unrepeatable_ = false;  // plain repetition gives other tokens

  static std::string beginning(const Exchange& e) {
    const std::string& text = e.reply.answer->text;
    std::size_t end = std::min<std::size_t>(24, text.size());
    while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80)
      --end;  // not within a character of UTF-8
    std::string out;
    for (char c : text.substr(0, end)) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    return out;
  }

  // Small but lasting: before, one answer repeated exactly; after, another one repeated exactly. If the
  // requests were interchangeable, 3 + 3 answers of two kinds would split so with chance 2 / C(6,3) = 0.1 for
  // one prompt.
  void step(Verdict& v) {
    int steps = 0;
    std::string where;
    for (int n = 0; n < kPrompts; ++n) {
      const Group before = group(all_, "before", name("small", n), Mode::fresh);
      const Group after = group(all_, "after", name("small", n), Mode::fresh);
      if (before.size() < 3 || after.size() < 3 || spread(before) > 0 || spread(after) > 0) continue;
      const Distance d = between(before[0], after[0]);
      if (!(d.value > 0)) continue;
      ++steps;
      where += fmt::format(" {} by {:.3g} (requests {} to {}, then {} to {});", name("small", n), d.value,
                           before.front()->number, before.back()->number, after.front()->number,
                           after.back()->number);
    }
    if (steps == kPrompts)
      v.evidence.push_back("every prompt moved from one repeated answer to another:" + where);
  }
};

}  // namespace

std::vector<Verdict> judge_pairs(const Transcript& t) {
  Pairs p(t);
  // In this order: an initialiser list is evaluated from left to right, and the first decides what the others
  // can say.
  return {p.nondeterminism(), p.changed_answer(),   p.poisoned_prefix(),
          p.collapse(),       p.order_dependence(), p.baseline()};
}

}  // namespace assay::live
