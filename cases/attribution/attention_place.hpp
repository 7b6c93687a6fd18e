// Where the fault of an attention kernel lies: which keys, tiles, pages, dimensions of q.k, bits of a code; which rows have it.
#pragma once

#include <string>

#include "cases/attribution/attention_questions.hpp"

namespace assay::attribution {

// "keys 32..47, pages 2..2, heads 1..1", asked at the case's own shape by few runs; "" where the answers leave it open. Axes:
// keys, tiles (of the contract), pages (of a sequence), dimensions, bits of k or v, batch entries, query rows, heads.
// `columns_too`: in the case's own data what is wrong stands in some columns of V alone, which the answers must then speak against.
std::string attention_place(Bench& bench, const std::string& stage, bool columns_too);

}  // namespace assay::attribution
