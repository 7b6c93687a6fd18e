// The first calls of a kernel on rows: one row has one sum, and shows too little of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/rows.hpp"

namespace assay {

// The drawn call of seed 1, and behind its rows those of more calls of as many rows until there are `few` (of norms, whose reciprocal root
// hides half of what differs, twice as many, of logsumexp, whose logarithm
// shows few bits, eight times), with the same weights where the op has some. nullopt where the kernel does not take the shape.
// `last_seed`: of the drawn calls.
std::optional<RowAnswer> first_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                    std::int64_t few, std::int64_t& last_seed);
// Balanced rows, `least` or more, in calls of `rows` as one answer. nullopt where the format does not hold them.
std::optional<RowAnswer> ask_balanced(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                      const std::string& format, std::int64_t least);

// Of norms: rows of numbers near 1 and a few so large that, squared, they swallow those that are added to them one by one, so that orders
// of additions are many last places apart. nullopt for other ops, and where the store hides last places.
std::optional<RowAnswer> ask_swamped(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                                     const RowInputs& like);

}  // namespace assay
