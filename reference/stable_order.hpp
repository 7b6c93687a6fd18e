// A stable sort. Not std::stable_sort: that of libstdc++ 12 calls what C++17 deprecates, and clang says so of every caller.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace assay {

// Rows in the order of `less`; those that it does not tell apart, in the order in which they came. Runs of twice the
// width are merged until one is left.
template <typename Row, typename Less>
void sort_stably(std::vector<Row>& rows, Less less) {
  for (std::size_t width = 1; width < rows.size(); width *= 2) {
    std::vector<Row> merged;
    merged.reserve(rows.size());
    const auto at = [&](std::size_t i) {
      return std::make_move_iterator(rows.begin() + static_cast<std::ptrdiff_t>(std::min(i, rows.size())));
    };
    for (std::size_t i = 0; i < rows.size(); i += 2 * width)
      std::merge(at(i), at(i + width), at(i + width), at(i + 2 * width), std::back_inserter(merged), less);
    rows = std::move(merged);
  }
}

}  // namespace assay
