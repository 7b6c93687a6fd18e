#include "cases/studies/identify/attention_evidence.hpp"

#include <algorithm>
#include <utility>

#include "reference/parallel.hpp"

namespace assay {
namespace {

// Row-major [rows, columns] without its columns from `kept` on.
template <typename T>
void keep_columns(std::vector<T>& x, std::int64_t rows, std::int64_t columns, std::int64_t kept) {
  if (x.empty()) return;
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(x.begin() + r * columns, kept, x.begin() + r * kept);
  x.resize(static_cast<std::size_t>(rows * kept));
}

AttentionHead of_keys(AttentionHead head, std::int64_t keys) {
  if (keys == 0 || keys >= head.keys) return head;
  keep_columns(head.visible, head.rows, head.keys, keys);
  head.keys = keys;
  head.k.resize(static_cast<std::size_t>(keys * head.d));
  head.v.resize(static_cast<std::size_t>(keys * head.dv));
  return head;
}

// The last row, which sees the most keys.
AttentionHead one_row(AttentionHead head) {
  constexpr std::int64_t kColumns = 16;
  const auto keep_last = [&](auto& x) {
    if (!x.empty()) x.erase(x.begin(), x.end() - std::ssize(x) / head.rows);
  };
  keep_last(head.q), keep_last(head.got), keep_last(head.visible);
  head.rows = 1;
  const std::int64_t kept = std::min(head.dv, kColumns);
  keep_columns(head.v, head.keys, head.dv, kept), keep_columns(head.got, 1, head.dv, kept);
  head.dv = kept;
  return head;
}

}  // namespace

AttentionEvidence::Head::Head(AttentionHead asked)
    : whole_(std::move(asked)), part_(one_row(whole_)), of_whole_(whole_), of_part_(part_) {}

std::int64_t AttentionEvidence::Head::unequal(const AttentionSchedule& s, bool few) const {
  if (const std::int64_t count = of_part_.unequal(s); count > 0)
    return count * whole_.outputs() / part_.outputs();
  const std::int64_t rows = std::min<std::int64_t>(whole_.rows, 8);
  const std::int64_t count = of_whole_.unequal(s, rows) * whole_.rows / rows;
  return count > 0 || few || rows == whole_.rows ? count : of_whole_.unequal(s);
}

void AttentionEvidence::add(AttentionAnswer answer, std::int64_t keys) {
  for (AttentionHead& head : answer.heads)
    heads_.push_back(std::make_unique<Head>(of_keys(std::move(head), keys)));
}

std::vector<std::int64_t> AttentionEvidence::unequal(std::span<const AttentionSchedule> list, bool few) {
  std::vector<std::int64_t> counts(list.size(), 0);
  std::vector<std::size_t> refuted_by(list.size(), 0);
  parallel_units(list.size(), [&](std::size_t at) {
    for (std::size_t i = 0; i < heads_.size() && counts[at] == 0; ++i)
      counts[at] = heads_[i]->unequal(list[at], few), refuted_by[at] = i;
  });
  const auto last =
      std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count != 0; });
  if (last != counts.rend()) {
    const auto front =
        static_cast<std::ptrdiff_t>(refuted_by[static_cast<std::size_t>(counts.rend() - last) - 1]);
    std::rotate(heads_.begin(), heads_.begin() + front, heads_.begin() + front + 1);
  }
  return counts;
}

}  // namespace assay
