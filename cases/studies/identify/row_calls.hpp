// The first calls of a kernel on rows: one row has one sum, and shows too little of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/rows.hpp"

namespace assay {

// The drawn call of seed 1, and behind its rows those of more calls of as many rows until there are `few` (of
// norms, whose reciprocal root hides half of what differs, twice as many, of logsumexp, whose logarithm
// shows few bits, eight times), with the same weights where the op has some. nullopt where the kernel does
// not take the shape. `last_seed`: of the drawn calls.
std::optional<RowAnswer> first_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                    std::int64_t few, std::int64_t& last_seed);
// Balanced rows, `least` or more, in calls of `rows` as one answer. nullopt where the format does not hold
// them. Of a narrow store the first `few` are at midpoints, as below.
std::optional<RowAnswer> ask_balanced(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                      const RowInputs& like, std::int64_t few, std::int64_t least,
                                      std::uint64_t seed);

// Of norms whose store hides last places: rows, 2 `few` or more, and such gamma that each column's exact
// output of one of the first `few` is within a few of f32's places of a midpoint of the store: which
// neighbour is stored shows a row's sums. nullopt for others.
std::optional<RowAnswer> ask_midpoints(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                       const RowInputs& like, std::int64_t few, std::uint64_t seed);

// Of norms: rows of numbers near 1 and a few so large that, squared, they swallow those that are added to
// them one by one, so that orders of additions are many last places apart. nullopt for other ops, and where
// the store hides last places.
std::optional<RowAnswer> ask_swamped(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                     const RowInputs& like);

}  // namespace assay
