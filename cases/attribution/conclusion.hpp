// What the probes of an op hand back.
#pragma once

#include "cases/attribution/attribute.hpp"
#include "cases/attribution/bench.hpp"

namespace assay::attribution {

// attention.cpp, rows.cpp (softmax, logsumexp, norms), moe.cpp (and argmax): fill in stage, what, where and evidence.
void attribute_attention(Bench& bench, Attribution& a);
class AttentionQuestions;
// attention_given.cpp. What of the case may be left out so that it is still wrong; nothing where that names the stage.
std::optional<std::vector<Change>> attention_simplified(Bench& bench, AttentionQuestions& questions,
                                                        Attribution& a);
// The case's own data, at its own shape.
void attention_as_given(Bench& bench, const AttentionQuestions& questions,
                        const std::vector<Change>& left_out, Attribution& a);
void attribute_softmax(Bench& bench, Attribution& a);
void attribute_norm(Bench& bench, Attribution& a);
void attribute_matmul(Bench& bench, Attribution& a);
void attribute_moe(Bench& bench, Attribution& a);
void attribute_argmax(Bench& bench, Attribution& a);

}  // namespace assay::attribution
