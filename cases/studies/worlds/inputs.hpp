// Inputs of a small world: all of them, or every so many of them where there are more than are wanted.
#pragma once

#include <cstdint>
#include <vector>

namespace assay::worlds {

// Rows of `n` numbers of `from`, all of them up to their order where `sorted` (the members of a sum in any
// order are the same). About `most` of them: evenly spread through all, with a step that no count of the
// numbers divides.
inline std::vector<std::vector<double>> rows_of(const std::vector<double>& from, int n, bool sorted,
                                                std::size_t most) {
  const auto base = static_cast<double>(from.size());
  double total = 1;
  for (int i = 0; i < n; ++i) total *= base;
  std::vector<std::vector<double>> rows;
  double share = 1;  // of all rows those that are in order
  if (sorted)
    for (int i = 2; i <= n; ++i) share *= i;
  double step = total / share / static_cast<double>(most);
  step = step <= 1 ? 1 : step;
  std::vector<double> row(static_cast<std::size_t>(n));
  auto stride = static_cast<std::uint64_t>(step);
  const auto coprime = [&](std::uint64_t s) {
    std::uint64_t a = s, b = from.size();
    while (b != 0) a %= b, std::swap(a, b);
    return a == 1;
  };
  while (stride > 1 && !coprime(stride)) ++stride;
  for (double at = 0; at < total; at += static_cast<double>(stride)) {
    auto code = static_cast<std::uint64_t>(at);
    bool in_order = true;
    for (int i = 0; i < n; ++i) {
      row[static_cast<std::size_t>(i)] = from[code % from.size()];
      code /= from.size();
      if (i > 0 && sorted && row[static_cast<std::size_t>(i)] < row[static_cast<std::size_t>(i) - 1])
        in_order = false;
    }
    if (in_order) rows.push_back(row);
  }
  return rows;
}

}  // namespace assay::worlds
