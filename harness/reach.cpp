#include "harness/reach.hpp"

#include <deque>
#include <set>

#include "harness/call.hpp"

namespace assay {

const std::string& Reach::refusal(const Case& c) {
  Case seen = c;
  seen.fill = "gaussian", seen.fault = "none", seen.seed = 1, seen.backend.clear();
  const auto [at, missing] = refusals_.try_emplace(seen.line());
  if (!missing) return at->second;
  const DeclareResult declared = workers_.of(backend_).worker->declare(make_empty_call(c));
  if (declared.status == RunStatus::unsupported || declared.status == RunStatus::too_big)
    at->second = declared.reason.empty() ? "unsupported" : declared.reason;
  return at->second;
}

std::optional<Choice> nearest_taken(const std::vector<std::size_t>& values, const Choice& start,
                                    const std::function<std::optional<std::string>(const Choice&)>& refusal,
                                    std::size_t most, const std::vector<std::size_t>& joint) {
  std::set<std::string> reasons;
  std::set<Choice> seen{start};
  std::deque<Choice> next{start};
  const auto look = [&](const Choice& c) {
    const auto reason = refusal(c);
    if (!reason) return false;
    if (reason->empty()) return true;
    if (reasons.insert(*reason).second) next.push_back(c);
    return false;
  };
  if (look(start)) return start;
  while (!next.empty() && seen.size() < most) {
    const Choice from = next.back();  // the newest reason is the farthest
    next.pop_back();
    for (std::size_t f = 0; f < values.size(); ++f)
      for (std::size_t v = 0; v < values[f] && seen.size() < most; ++v) {
        Choice c = from;
        c[f] = v;
        if (!seen.insert(c).second) continue;
        if (look(c)) return c;
      }
  }
  const std::size_t last = seen.size() + most;
  for (std::size_t i = 0; i < joint.size(); ++i)
    for (std::size_t j = i + 1; j < joint.size(); ++j)
      for (std::size_t v = 0; v < values[joint[i]]; ++v)
        for (std::size_t w = 0; w < values[joint[j]] && seen.size() < last; ++w) {
          Choice c = start;
          c[joint[i]] = v, c[joint[j]] = w;
          if (seen.insert(c).second && look(c)) return c;
        }
  return std::nullopt;
}

}  // namespace assay
