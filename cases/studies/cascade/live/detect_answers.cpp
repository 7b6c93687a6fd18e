// Detectors that look at answers one by one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cases/studies/cascade/live/compare.hpp"
#include "cases/studies/cascade/live/detectors.hpp"

namespace assay::live {
namespace {

constexpr std::size_t kLongestPeriod = 8;
// A loop must be less likely than this by chance, over all answers of the run together.
constexpr double kChance = 1e-6;
// Probabilities that went through bf16 (8 significant bits) are off by at most 2^-8 of themselves;
// log-probabilities as well. Doubled once, for the sum and the quotient of a softmax.
constexpr double kRounding = 0x1p-7;

std::string where(const Exchange& e) {
  return fmt::format("request {} ({} {} {})", e.number, e.phase, e.prompt, to_string(e.mode));
}
std::string quoted(const std::string& s) {
  std::string out;
  for (char c : s.substr(0, 60)) out += c == '\n' ? std::string("\\n") : std::string(1, c);
  return "'" + out + (s.size() > 60 ? "'..." : "'");
}

void finish(Verdict& v, std::size_t judged, const std::string& clean) {
  if (!v.evidence.empty()) {
    v.outcome = Outcome::finding;
    if (v.summary.empty()) v.summary = fmt::format("{} of {} answers", v.evidence.size(), judged);
  } else if (judged > 0) {
    v.outcome = Outcome::clean;
    v.summary = clean;
  }
}

Verdict server_failure(const Transcript& t) {
  Verdict v{"server_failure",
            Outcome::not_run,
            "no request was sent",
            {},
            "every request of the sequence gets a completion"};
  std::map<std::string, int> kinds;
  for (const auto& e : t.exchanges) {
    if (e.reply.failure == FailureKind::none) continue;
    ++kinds[to_string(e.reply.failure)];
    v.evidence.push_back(fmt::format("{}: {} after {:.2f} s, {}", where(e), to_string(e.reply.failure),
                                     e.reply.seconds, e.reply.detail));
  }
  if (!kinds.empty()) {
    v.summary.clear();
    for (const auto& [kind, n] : kinds)
      v.summary += fmt::format("{}{} {}", v.summary.empty() ? "" : ", ", n, kind);
    v.summary += fmt::format(" of {} requests", t.exchanges.size());
  }
  finish(v, t.exchanges.size(), fmt::format("{} requests answered", t.exchanges.size()));
  return v;
}

Verdict empty_output(const std::vector<const Exchange*>& answers) {
  Verdict v{"empty_output",
            Outcome::not_run,
            "no answer",
            {},
            "an answer without a token must have been stopped by the model, and not every answer"};
  std::size_t empty = 0;
  for (const auto* e : answers) {
    const Answer& a = *e->reply.answer;
    if (!a.text.empty() || !a.steps.empty()) continue;
    ++empty;
    if (a.finish != "stop")
      v.evidence.push_back(fmt::format("{}: empty, finish reason '{}'", where(*e), a.finish));
  }
  if (v.evidence.empty() && empty > 0 && empty == answers.size())
    v.evidence.push_back(fmt::format("all {} answers are empty", empty));
  v.summary.clear();
  finish(v, answers.size(), fmt::format("{} answers with text", answers.size() - empty));
  return v;
}

// A log-probability that no softmax over a finite vocabulary can give.
Verdict nonfinite_logprobs(const Transcript& t, const std::vector<const Exchange*>& answers) {
  // Greedy takes the most probable of V tokens, so its probability is at least 1/V. Token ids have at most 32
  // bits.
  const double vocabulary = t.server.vocabulary > 0 ? static_cast<double>(t.server.vocabulary) : 0x1p32;
  const double lowest = -std::log(vocabulary) * (1 + kRounding) - kRounding;
  Verdict v{
      "nonfinite_logprobs",
      Outcome::not_run,
      "the server gives no log-probabilities",
      {},
      fmt::format(
          "each is a number, the most probable of {:.0f} tokens has log p >= {:.2f}, listed probabilities "
          "sum to at most 1 + 2^-7 (bf16 rounding)",
          vocabulary, lowest)};
  std::size_t judged = 0;
  for (const auto* e : answers) {
    const Answer& a = *e->reply.answer;
    std::string found;
    if (e->reply.without_logprobs)
      found = fmt::format("HTTP 500 with log-probabilities and an answer without ({})", e->reply.detail);
    if (a.steps.empty() && found.empty()) continue;
    ++judged;
    std::size_t bad = 0, low = 0, over = 0;
    for (const auto& s : a.steps) {
      double sum = 0;
      for (const auto& [token, p] : s.top) sum += std::isfinite(p) ? std::exp(p) : 0;
      if (!std::isfinite(s.logprob)) {
        ++bad;
        continue;
      }
      if (!(s.logprob >= lowest)) ++low;
      if (!(std::max(sum, std::exp(s.logprob)) <= 1 + kRounding)) ++over;
    }
    if (bad > 0)
      found = fmt::format("{} of {} tokens without a number{}", bad, a.steps.size(),
                          e->reply.bare_nan ? " (the body holds NaN or Infinity)" : "");
    else if (low > 0)
      found = fmt::format("{} of {} chosen tokens less probable than 1/V", low, a.steps.size());
    else if (over > 0)
      found = fmt::format("probabilities of {} tokens sum to more than 1", over);
    if (!found.empty()) v.evidence.push_back(where(*e) + ": " + found + ", text " + quoted(a.text));
  }
  if (judged > 0) v.summary.clear();
  finish(v, judged, fmt::format("{} answers, all numbers possible", judged));
  return v;
}

Verdict greedy_choice(const std::vector<const Exchange*>& answers) {
  Verdict v{
      "greedy_choice",
      Outcome::not_run,
      "the server lists no alternatives",
      {},
      "at temperature 0 no listed token is more probable than the chosen one (both from one softmax: exact)"};
  std::size_t judged = 0;
  for (const auto* e : answers) {
    const auto& steps = e->reply.answer->steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      if (s.top.empty() || !std::isfinite(s.logprob)) continue;
      ++judged;
      const auto better =
          std::find_if(s.top.begin(), s.top.end(), [&](const auto& o) { return o.second > s.logprob; });
      if (better == s.top.end()) continue;
      v.evidence.push_back(fmt::format("{}: token {} is {} with log p {:.4f}, but {} has {:.4f}", where(*e),
                                       i, quoted(s.token), s.logprob, quoted(better->first), better->second));
      break;
    }
  }
  if (judged > 0) v.summary.clear();
  finish(v, judged, fmt::format("{} tokens, each the most probable", judged));
  return v;
}

// The largest share that one token has in the answers to other prompts: the chance that the next token
// repeats.
double largest_share(const std::vector<const Exchange*>& answers, const std::string& but) {
  std::map<std::string, double> counts;
  double all = 0, most = 0;
  for (const auto* e : answers) {
    if (e->prompt == but || e->phase != "before") continue;
    for (const auto& token : tokens_of(*e->reply.answer)) {
      ++all;
      most = std::max(most, ++counts[token]);
    }
  }
  return (most + 1) / (all + 2);
}

// Where the server does not say how many tokens there are: no model has fewer.
constexpr double kFewestTokens = 1000;

// Nothing was chosen by its probability: no number, or all listed alternatives exactly as probable and no
// more so than under a flat distribution: exact ties above that are the model's own.
bool blind(const Answer& a, std::size_t repeated, long vocabulary) {
  const double flat = -std::log(vocabulary > 0 ? static_cast<double>(vocabulary) : kFewestTokens);
  std::size_t n = 0;
  for (std::size_t i = a.steps.size() - repeated; i < a.steps.size(); ++i) {
    const Step& s = a.steps[i];
    const bool tied = s.top.size() > 1 && s.logprob <= flat + kRounding &&
                      std::ranges::all_of(s.top, [&](const auto& o) { return o.second == s.logprob; });
    n += std::isnan(s.logprob) || tied ? 1 : 0;
  }
  return 2 * n > repeated;
}

Verdict repetition(const Transcript& t, const std::vector<const Exchange*>& answers) {
  Verdict v{
      "repetition",
      Outcome::not_run,
      "no answer",
      {},
      fmt::format(
          "a loop at the end of an answer is a habit of the model unless (a) it fills half of the answer and "
          "its tokens were not chosen by probability: no number, or exactly tied with every alternative at "
          "what a "
          "flat distribution gives; "
          "(b) without log-probabilities, it fills half of the answer to each of the {} small and large "
          "prompts; (c) the same prompt was answered without it before, and its chance under the token "
          "shares of this server's answers to other prompts is below {}",
          2 * kPrompts, kChance)};
  struct Candidate {
    const Exchange* e;
    Loop loop;
    double chance;
    std::string key;
    bool half;
  };
  std::vector<Candidate> candidates;
  std::map<std::string, std::set<std::string>> ends;  // loop -> prompts of which half the answer it fills
  std::set<std::string> healthy;                      // prompts that were answered without a long loop before
  for (const auto* e : answers) {
    const auto tokens = tokens_of(*e->reply.answer);
    const Loop loop = tail_loop(tokens);
    // Any answer, any of its lengths, any period: a union bound.
    const double places = static_cast<double>(answers.size() * tokens.size() * kLongestPeriod);
    const double chance =
        places * std::pow(largest_share(answers, e->prompt), static_cast<double>(loop.repeated));
    if (e->phase == "before" && !(chance <= kChance)) healthy.insert(e->prompt);
    if (loop.repeated == 0) continue;
    auto least = loop.tokens;  // the same loop may end at another of its tokens
    for (auto turned = loop.tokens; std::ranges::rotate(turned, turned.begin() + 1), turned != loop.tokens;)
      least = std::min(least, turned);
    std::string key;
    for (const auto& token : least) key += token;
    const bool half = 2 * loop.repeated >= tokens.size();
    if (half) ends[key].insert(e->prompt);
    candidates.push_back({e, loop, chance, key, half});
  }
  const auto everywhere = [&](const std::string& key) {
    bool all = true;
    for (const char* kind : {"small", "large"})
      for (int n = 1; n <= kPrompts; ++n) all = all && ends[key].contains(fmt::format("{}{}", kind, n));
    return all;
  };
  for (const auto& c : candidates) {
    const Answer& a = *c.e->reply.answer;
    const char* why = nullptr;
    if (c.half && !a.steps.empty() && blind(a, c.loop.repeated, t.server.vocabulary))
      why = "(a) not chosen by probability";
    else if (c.half && a.steps.empty() && everywhere(c.key))
      why = "(b) the end of the answers to different prompts";
    else if (c.e->phase == "after" && c.chance <= kChance && healthy.contains(c.e->prompt))
      why = "(c) not so before";
    if (why)
      v.evidence.push_back(fmt::format("{}: {} repeats over {} tokens, chance {:.1e}: {}", where(*c.e),
                                       quoted(c.key), c.loop.repeated, c.chance, why));
  }
  v.summary.clear();
  finish(v, answers.size(),
         fmt::format("{} answers, no loop that is not a habit of the model", answers.size()));
  return v;
}

}  // namespace

std::vector<std::string> tokens_of(const Answer& a) {
  std::vector<std::string> out;
  for (const auto& s : a.steps) out.push_back(s.token);
  if (!out.empty()) return out;
  for (char c : a.text)
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80 && !out.empty())
      out.back() += c;  // the rest of a character in UTF-8
    else
      out.emplace_back(1, c);
  return out;
}

Loop tail_loop(const std::vector<std::string>& tokens) {
  Loop best;
  for (std::size_t p = 1; p <= kLongestPeriod && p < tokens.size(); ++p) {
    std::size_t repeated = 0;
    while (repeated + p < tokens.size() &&
           tokens[tokens.size() - 1 - repeated] == tokens[tokens.size() - 1 - repeated - p])
      ++repeated;
    if (repeated > best.repeated) best = {{tokens.end() - static_cast<long>(p), tokens.end()}, repeated};
  }
  return best;
}

std::vector<Verdict> judge_answers(const Transcript& t) {
  std::vector<const Exchange*> answers;
  for (const auto& e : t.exchanges)
    if (e.reply.answer) answers.push_back(&e);
  return {server_failure(t), empty_output(answers), nonfinite_logprobs(t, answers), greedy_choice(answers),
          repetition(t, answers)};
}

std::vector<Verdict> judge(const Transcript& t) {
  auto all = judge_answers(t);
  for (auto& v : judge_pairs(t)) all.push_back(std::move(v));
  return all;
}

}  // namespace assay::live
