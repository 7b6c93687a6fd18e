// Where a schedule changes between two sizes.
#pragma once

#include <cstdint>
#include <optional>

namespace assay {

// The last size that has the schedule of `low`, and the next: by halving, on the premise that it changes
// once. `which` says of a size in between whether it has the one (0) or the other (1); nullopt, here too,
// where it has neither or cannot be told.
struct SizeBorder {
  std::int64_t last, next;
};
template <typename Which>
std::optional<SizeBorder> halved_border(std::int64_t low, std::int64_t high, const Which& which) {
  SizeBorder border{low, high};
  while (border.next - border.last > 1) {
    const std::int64_t middle = border.last + (border.next - border.last) / 2;
    const std::optional<int> side = which(middle);
    if (!side) return std::nullopt;
    (*side == 0 ? border.last : border.next) = middle;
  }
  return border;
}

}  // namespace assay
