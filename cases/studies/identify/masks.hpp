// Which terms of a sum meet where, from outputs alone: masks in the manner of FPRev (Xie, Gao, Dai, Zheng,
// "FPRev: revealing the order of floating-point summation", arXiv:2411.00442). Among ones, term i is M and
// term j is -M, so large that every one that is added to either of them is lost; what is left are the terms
// that join after the two have met:
//   n - result = the leaves under the lowest node that has both i and j.
// Fused blocks show as nodes of several terms. Here a row of a has M at i and a column of b has -M at j, so
// that one call of m x n outputs answers m n such questions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/subject.hpp"

namespace assay {

struct MaskAnswers {
  std::int64_t n = 0;              // terms
  std::vector<std::int64_t> i, j;  // of row r and column c
  std::vector<std::int64_t> met;   // [r][c]: leaves under the node where i and j meet; -1 where i = j
  std::vector<Answer> calls;
  bool whole = false;  // every i and every j was asked
};

// Asks for i = 0 and as many others as `most_calls` calls of this shape have room for. nullopt where masks
// cannot be held by the formats, or the answers are no counts (a kernel that overflows, or keeps more bits
// than the masks are apart).
std::optional<MaskAnswers> ask_masks(GemmSubject& subject, const GemmShape& shape, int most_calls);

// The tree as text: terms by number, a run of neighbours in one node as 0..15, a chain as ((0 1) 2): its
// shape alone, since additions commute. "" where not every pair was asked or the answers are no tree (rows
// that differ in their schedule).
std::string tree_text(const MaskAnswers& answers);
// One line: how term 0 meets the others.
std::string first_row_text(const MaskAnswers& answers);

}  // namespace assay
