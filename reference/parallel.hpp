// Work shared among threads where one case is too large for one of them. What is computed never depends on
// how many there are: units are cut by size alone, and each writes its own part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

namespace assay {

// How many threads one large computation may use; 1 until set. A harness that runs several cases at once
// leaves it.
void set_reference_threads(int threads);
int reference_threads();
// On how many processors this process may run, at least 1.
int available_processors();

// f(unit) for every unit in [0, units), by at most `threads` threads (0: reference_threads()). The first
// exception ends the work and is thrown on.
void parallel_units(std::size_t units, const std::function<void(std::size_t)>& f, int threads = 0);

// f(first, last) over [0, count) in ranges of kParallelGrain elements, a multiple of every block.
inline constexpr std::size_t kParallelGrain = std::size_t{1} << 18;
template <typename F>
void parallel_ranges(std::size_t count, const F& f) {
  if (count <= kParallelGrain) return f(std::size_t{0}, count);
  parallel_units((count + kParallelGrain - 1) / kParallelGrain, [&](std::size_t unit) {
    f(unit * kParallelGrain, std::min(count, (unit + 1) * kParallelGrain));
  });
}

// f(row) for every row in [0, rows), rows of so many elements each.
template <typename F>
void parallel_rows(std::size_t rows, std::size_t elements, const F& f) {
  constexpr std::size_t kElements = std::size_t{1} << 16;  // of a unit
  const std::size_t each = std::max<std::size_t>(1, kElements / std::max<std::size_t>(1, elements));
  parallel_units((rows + each - 1) / each, [&](std::size_t unit) {
    for (std::size_t row = unit * each; row < std::min(rows, (unit + 1) * each); ++row) f(row);
  });
}

}  // namespace assay
