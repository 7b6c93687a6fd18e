// The terms of a schedule's slices and chunks.
#include <algorithm>

#include "reference/replay/schedule.hpp"

namespace assay {

std::vector<std::vector<TermRun>> slices(const Schedule& s, std::int64_t n) {
  std::vector<std::vector<TermRun>> list;
  const std::int64_t q = s.quantum, quanta = (n + q - 1) / q;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    list.emplace_back();
    if (begin < std::min(end, n)) list.back().push_back({begin, std::min(end, n)});
  };
  if (s.slicing == Slicing::cuts) {
    std::int64_t begin = 0;
    for (const std::int64_t cut : s.cuts) add(begin, cut), begin = cut;
    add(begin, n);
    return list;
  }
  if (s.split == 1) {
    add(0, n);
    return list;
  }
  for (std::int64_t i = 0; i < s.split; ++i) {
    if (s.slicing == Slicing::even) {
      const std::int64_t each = (quanta + s.split - 1) / s.split;
      add(i * each * q, (i + 1) * each * q);
    } else if (s.slicing == Slicing::balanced) {
      const std::int64_t each = quanta / s.split, more = quanta % s.split;
      add((i * each + std::min(i, more)) * q, ((i + 1) * each + std::min(i + 1, more)) * q);
    } else if (s.slicing == Slicing::proportional) {
      add(i * quanta / s.split * q, (i + 1) * quanta / s.split * q);
    } else {
      std::vector<TermRun> runs;
      for (std::int64_t t = i; t < quanta; t += s.split) runs.push_back({t * q, std::min((t + 1) * q, n)});
      list.push_back(std::move(runs));
    }
  }
  return list;
}

std::vector<std::vector<TermRun>> chunks(const Schedule& s, const std::vector<TermRun>& slice) {
  if (slice.empty()) return {};
  if (s.chunk == 0) return {slice};
  std::vector<std::vector<TermRun>> list;
  std::int64_t room = 0;
  for (TermRun run : slice)
    while (run.length() > 0) {
      if (room == 0) list.emplace_back(), room = s.chunk;
      const std::int64_t take = std::min(room, run.length());
      if (!list.back().empty() && list.back().back().end == run.begin)
        list.back().back().end += take;
      else
        list.back().push_back({run.begin, run.begin + take});
      run.begin += take, room -= take;
    }
  return list;
}

}  // namespace assay
