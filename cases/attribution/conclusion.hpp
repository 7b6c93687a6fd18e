// What the probes of an op hand back.
#pragma once

#include "cases/attribution/attribute.hpp"
#include "cases/attribution/bench.hpp"

namespace assay::attribution {

// attention.cpp, rows.cpp (softmax, logsumexp, norms), moe.cpp (and argmax): fill in stage, what, where and evidence.
void attribute_attention(Bench& bench, Attribution& a);
class AttentionQuestions;
void attention_as_given(Bench& bench, const AttentionQuestions& questions,
                        Attribution& a);  // attention_given.cpp
void attribute_softmax(Bench& bench, Attribution& a);
void attribute_norm(Bench& bench, Attribution& a);
void attribute_matmul(Bench& bench, Attribution& a);
void attribute_moe(Bench& bench, Attribution& a);
void attribute_argmax(Bench& bench, Attribution& a);

}  // namespace assay::attribution
