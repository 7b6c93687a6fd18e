#include "reference/replay/attention_left.hpp"

namespace assay {

Schedule dot_of(const AttentionSchedule& how) {
  Schedule dot;
  dot.acc = how.qk, dot.lanes = how.dot_lanes, dot.pack = how.dot_pack, dot.fma = how.fma;
  dot.fold = how.dot_fold, dot.head = how.dot_head, dot.swapped = how.dot_pairs;
  if (how.dot_refold) dot.tail = Tail::refold;
  return dot;
}

Schedule left_dot_of(const AttentionSchedule& how, std::int64_t lanes) {
  Schedule dot = dot_of(how);
  dot.lanes = lanes, dot.pack = 1, dot.fold = how.left_fold, dot.tail = Tail::lanes;
  dot.head = how.left_head, dot.head_apart = how.left_head > 0;
  if (how.left_vector > 0) dot.tail = Tail::vector, dot.tail_width = how.left_vector;
  // Over as many sums as there are lanes a tail goes on without a fold.
  if (how.left_folded > 0 && how.left_folded < lanes)
    dot.tail = Tail::folded, dot.tail_width = how.left_folded;
  return dot;
}

void take_left(const AttentionSchedule& how, const ReplayQueries& queries, std::int64_t keys,
               std::int64_t first, std::int64_t rows, const std::vector<std::vector<Tile>>& plan,
               std::span<const float> left, std::span<const float> second, std::vector<float>& s) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto sees = [&](std::int64_t j) {
      return !queries.visible || queries.visible(queries.heads ? 0 : first + i, j);
    };
    for (const auto& part : plan)
      for (const Tile& t : part)
        for (std::int64_t begin = t.from; begin < t.to;) {
          std::int64_t end = begin;
          while (end < t.to && sees(end)) ++end;
          const std::int64_t together = (end - begin) / how.dot_rows * how.dot_rows;
          for (std::int64_t j = begin + together; j < end; ++j) {
            const auto at = static_cast<std::size_t>(i * keys + j);
            s[at] = (!second.empty() && (j - begin - together) % 2 == 1 ? second : left)[at];
          }
          begin = end + 1;  // the key at `end` is not seen, or is another tile's
        }
  }
}

}  // namespace assay
