#include "harness/history.hpp"

#include <algorithm>

#include "harness/case.hpp"

namespace assay {

void replay_calls(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options) {
  if (c.after.empty()) return;
  workers.of(c.backend).worker->restart();
  for (const std::string& line : c.after) {
    Case earlier = expand(parse_case(line)).front();
    earlier.backend = c.backend;
    JudgeOptions unseen = options;
    unseen.observe = nullptr;
    (void)judge_alone(earlier, lists, workers, unseen);
  }
  Workers::Entry& entry = workers.current(c.backend);
  entry.calls = c.after;
}

std::optional<std::vector<std::string>> shortest_history(
    const std::vector<std::string>& calls, const std::function<bool(const std::vector<std::string>&)>& shows,
    std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  std::vector<std::string> shortest;
  for (std::size_t last = 0;; last = std::min(calls.size(), std::max<std::size_t>(1, 2 * last))) {
    shortest.assign(calls.end() - static_cast<std::ptrdiff_t>(last), calls.end());
    if (shows(shortest)) break;
    if (last == calls.size() || Clock::now() > end) return std::nullopt;
  }
  // Dropped in pieces, half as long each time: most of a long list is of no account.
  for (std::size_t piece = std::max<std::size_t>(1, shortest.size() / 2); !shortest.empty(); piece /= 2) {
    for (std::size_t at = 0; at < shortest.size() && Clock::now() < end;) {
      std::vector<std::string> fewer = shortest;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(first, first + static_cast<std::ptrdiff_t>(std::min(piece, shortest.size() - at)));
      if (shows(fewer))
        shortest = std::move(fewer);
      else
        at += piece;
    }
    if (piece == 1) break;
  }
  return shortest;
}

}  // namespace assay
