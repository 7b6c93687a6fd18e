// Moments as kernels in f32 form them that keep several parts: Welford's update within a part, merges between
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace assay::testing {

struct Part {
  float n = 0, mean = 0, squares = 0;
};

enum class MergeTree : std::uint8_t { forward, backward, onto_the_next, halves, random };
enum class MergeFormula : std::uint8_t { difference, weighted, two_sums, fraction, fused };
inline constexpr MergeTree kMergeTrees[] = {MergeTree::forward, MergeTree::backward, MergeTree::onto_the_next,
                                            MergeTree::halves, MergeTree::random};
inline constexpr MergeFormula kMergeFormulas[] = {MergeFormula::difference, MergeFormula::weighted,
                                                  MergeFormula::two_sums, MergeFormula::fraction,
                                                  MergeFormula::fused};

inline Part updated(Part a, float x) {
  const float n = a.n + 1, before = x - a.mean, mean = a.mean + before / n;
  return {n, mean, a.squares + before * (x - mean)};
}

// fault: of delta^2 n_A n_B / n.
inline Part merged(Part a, Part b, MergeFormula formula, float fault = 1) {
  const float n = a.n + b.n, d = b.mean - a.mean, dd = d * d * fault;
  if (n == 0) return a;
  const float part = 1.0F / n;
  switch (formula) {
    case MergeFormula::difference:
      return {n, a.mean + d * b.n / n, a.squares + b.squares + dd * a.n * b.n / n};
    case MergeFormula::weighted:  // PyTorch's kernels for CUDA
      return {n, a.n * part * a.mean + b.n * part * b.mean, a.squares + b.squares + dd * a.n * (b.n * part)};
    case MergeFormula::two_sums:
      return {n, (a.n * a.mean + b.n * b.mean) / n, a.squares + (b.squares + dd * (a.n * b.n / n))};
    case MergeFormula::fraction:  // PyTorch's kernels for CPUs
      return {n, a.mean + b.n / n * d, a.squares + (b.squares + dd * (b.n / n) * a.n)};
    case MergeFormula::fused:
      return {n, std::fma(d, b.n * part, a.mean), a.squares + std::fma(dd, a.n * b.n * part, b.squares)};
  }
  return a;
}

struct MergedKernel {
  std::size_t lanes = 1;
  bool contiguous = false;  // else strided
  bool empty = false;       // lanes without a term are merged too
  MergeTree tree = MergeTree::halves;
  MergeFormula formula = MergeFormula::difference;
  float fault = 1;
};

inline Part merged_moments(std::span<const float> x, const MergedKernel& k, std::mt19937_64& random) {
  const std::size_t n = x.size(), lanes = k.empty ? k.lanes : std::min(k.lanes, n),
                    each = (n + lanes - 1) / lanes;
  std::vector<Part> parts(lanes);
  for (std::size_t i = 0; i < n; ++i) {
    Part& part = parts[k.contiguous ? i / each : i % lanes];
    part = updated(part, x[i]);
  }
  const auto merge = [&](const Part& a, const Part& b) { return merged(a, b, k.formula, k.fault); };
  if (k.tree == MergeTree::backward) std::reverse(parts.begin(), parts.end());
  if (k.tree == MergeTree::halves) {
    for (std::size_t m = parts.size(); m > 1; m = (m + 1) / 2)
      for (std::size_t i = 0, half = (m + 1) / 2; i + half < m; ++i)
        parts[i] = merge(parts[i], parts[i + half]);
    return parts.front();
  }
  if (k.tree == MergeTree::random) {
    while (parts.size() > 1) {
      std::swap(parts[random() % parts.size()], parts.back());
      const Part last = parts.back();
      parts.pop_back();
      Part& other = parts[random() % parts.size()];
      other = merge(other, last);
    }
    return parts.front();
  }
  Part all = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i)
    all = k.tree == MergeTree::onto_the_next ? merge(parts[i], all) : merge(all, parts[i]);
  return all;
}

}  // namespace assay::testing
