// What the probes of an op hand back.
#pragma once

#include "cases/attribution/attribute.hpp"
#include "cases/attribution/bench.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::attribution {

// attention.cpp, rows.cpp (softmax, logsumexp, norms), moe.cpp (and argmax): fill in stage, what, where and
// evidence.
void attribute_attention(Bench& bench, Attribution& a);
class AttentionQuestions;
// attention_given.cpp. What of the case may be left out so that it is still wrong; nothing where that names
// the stage.
std::optional<std::vector<Change>> attention_simplified(Bench& bench, AttentionQuestions& questions,
                                                        Attribution& a);
// Whether the worst row is right where all other rows, heads and sequences have its numbers: it depends on
// theirs.
bool attention_reads_others(Bench& bench, const AttentionGeometry& g);
// The case's own data, at its own shape.
void attention_as_given(Bench& bench, const AttentionQuestions& questions,
                        const std::vector<Change>& left_out, Attribution& a);
void attribute_softmax(Bench& bench, Attribution& a);
void attribute_norm(Bench& bench, Attribution& a);
void attribute_matmul(Bench& bench, Attribution& a);
void attribute_moe(Bench& bench, Attribution& a);
void attribute_argmax(Bench& bench, Attribution& a);

// other_data.cpp. More answers to hold hypotheses against: where the case has a NaN one in each input in
// turn, the case's own shape with other numbers, and a small shape for what was explained alike.
void one_nan(Bench& bench);
void other_data(Bench& bench);
void other_shape(Bench& bench);
// An operand that nothing depends on, where something depends on another; "" where there is none.
std::string unread(Bench& bench);
// Of an op whose rows have nothing to do with each other: whether the worst row is right where all others
// have its numbers too.
bool reads_other_rows(Bench& bench);
// Whether runs on the same bytes differ.
bool unsteady(Bench& bench);

// Where a fault lies, asked at the case's own shape by few runs; "" where the answers leave it open.
// attention_place.cpp: "keys 32..47, pages 2..2, heads 1..1". Axes: keys, tiles (of the contract), pages (of
// a sequence), dimensions (of q.k), v bits, k bits, batch entries, query rows, heads. `columns_too`: in the
// case's own data what is wrong stands in some columns of V alone, which the answers must then speak against.
std::string attention_place(Bench& bench, const std::string& stage, bool columns_too);
// matmul_place.cpp: "k 32..63"; "" also where y has too few elements to show each k, or what is wrong lies in
// y's.
std::string matmul_place(Bench& bench);
// rows_place.cpp: "columns 31..31 of each 32", "rows 2..2", of softmax, logsumexp, the norms and quantisers.
std::string rows_place(Bench& bench);

}  // namespace assay::attribution
