#include "harness/reach.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

#include "harness/call.hpp"

namespace assay {
namespace {

// All of a case that a declaration sees.
std::string key_of(const Case& c) {
  Case seen = c;
  seen.fill = "gaussian", seen.fault = "none", seen.seed = 1, seen.backend.clear();
  return seen.line();
}

}  // namespace

const std::string& Reach::refusal(const Case& c) {
  (void)refusals({&c, 1});
  return refusals_.at(key_of(c));
}

std::vector<std::string> Reach::refusals(std::span<const Case> cases) {
  std::vector<std::string> keys;
  std::vector<std::string*> reasons;  // of those that are new
  std::vector<WorkerCall> calls;
  for (const Case& c : cases) {
    keys.push_back(key_of(c));
    const auto [at, missing] = refusals_.try_emplace(keys.back());
    if (!missing) continue;
    reasons.push_back(&at->second);
    calls.push_back(make_empty_call(c));
  }
  if (!calls.empty()) {
    ++waits_;
    const auto declared = workers_.of(backend_).worker->declare(calls);
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (declared[i].status == RunStatus::unsupported || declared[i].status == RunStatus::too_big)
        *reasons[i] = declared[i].reason.empty() ? "unsupported" : declared[i].reason;
  }
  std::vector<std::string> found;
  for (const std::string& key : keys) found.push_back(refusals_.at(key));
  return found;
}

namespace {

// The search: what it has seen, and where it goes on.
class Nearest {
 public:
  explicit Nearest(const ReachProblem& problem) : problem_(problem), most_(problem.most) {}

  // Looks at all of them, and returns the first that is taken.
  std::optional<Choice> look(const std::vector<Choice>& choices) {
    std::vector<Choice> asked;
    for (const Choice& c : choices)
      if (seen_.size() < most_ && seen_.insert(c).second) asked.push_back(c);
    if (asked.empty()) return std::nullopt;
    const auto refusals = problem_.refusals(asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (!refusals[i]) continue;
      if (refusals[i]->empty()) return asked[i];
      if (reasons_.insert(*refusals[i]).second) next_.push_back(asked[i]);
    }
    return std::nullopt;
  }
  std::optional<Choice> by_single_changes(const Choice& start) {
    if (const auto found = look({start})) return found;
    if (next_.empty()) next_.push_back(start);  // it is impossible: what it lacks may be one change away
    while (!next_.empty() && seen_.size() < most_) {
      const Choice from = next_.back();  // the newest reason is the farthest
      next_.pop_back();
      std::vector<Choice> changes;
      for (std::size_t f = 0; f < problem_.values.size(); ++f)
        for (std::size_t v = 0; v < problem_.values[f]; ++v) {
          Choice c = from;
          c[f] = v;
          if (const auto made = made_possible(std::move(c), start, {f})) changes.push_back(*made);
        }
      if (const auto found = look(changes)) return found;
    }
    return std::nullopt;
  }
  std::optional<Choice> by_two_changes(const Choice& start) {
    most_ = seen_.size() + problem_.most;
    const auto& joint = problem_.joint;
    for (std::size_t i = 0; i < joint.size(); ++i)
      for (std::size_t j = i + 1; j < joint.size(); ++j) {
        std::vector<Choice> changes;
        for (std::size_t v = 0; v < problem_.values[joint[i]]; ++v)
          for (std::size_t w = 0; w < problem_.values[joint[j]]; ++w) {
            Choice c = start;
            c[joint[i]] = v, c[joint[j]] = w;
            if (problem_.in_vain && problem_.in_vain(c, joint[i], joint[j])) continue;
            if (const auto made = made_possible(std::move(c), start, {joint[i], joint[j]}))
              changes.push_back(*made);
          }
        if (const auto found = look(changes)) return found;
      }
    return std::nullopt;
  }

 private:
  bool possible(const Choice& c) const { return !problem_.possible || problem_.possible(c); }
  // The size that makes one value possible, alone beside those of `start`: its factor and value. Looked for
  // once.
  std::optional<std::array<std::size_t, 2>> size_for(const Choice& start, std::size_t factor,
                                                     std::size_t value) {
    const auto [at, missing] = sizes_.try_emplace({factor, value});
    if (!missing) return at->second;
    Choice c = start;
    c[factor] = value;
    if (possible(c)) return std::nullopt;
    for (const std::size_t f : problem_.sizes) {
      if (f == factor) continue;
      const std::size_t had = c[f];
      for (c[f] = 0; c[f] < problem_.values[f]; ++c[f])
        if (possible(c)) return at->second = {f, c[f]};
      c[f] = had;
    }
    return std::nullopt;
  }
  std::optional<Choice> made_possible(Choice c, const Choice& start,
                                      const std::vector<std::size_t>& changed) {
    if (possible(c)) return c;
    for (const std::size_t f : changed)
      if (const auto size = size_for(start, f, c[f])) c[(*size)[0]] = (*size)[1];
    if (possible(c)) return c;
    return std::nullopt;
  }

  const ReachProblem& problem_;
  std::size_t most_;
  std::set<std::string> reasons_;
  std::set<Choice> seen_;
  std::deque<Choice> next_;
  std::map<std::array<std::size_t, 2>, std::optional<std::array<std::size_t, 2>>> sizes_;
};

}  // namespace

std::optional<Choice> nearest_taken(const ReachProblem& problem, const Choice& start) {
  Nearest nearest(problem);
  if (auto found = nearest.by_single_changes(start)) return found;
  return nearest.by_two_changes(start);
}

}  // namespace assay
