#include "reference/ops/attention/value/oracle_mp.hpp"

namespace assay {

OracleRow<mp::Real200> attention_oracle(const AttentionProblem& problem, std::int64_t b, std::int64_t row,
                                        std::int64_t head) {
  return attention_by_definition<mp::Real200>(problem, b, row, head);
}

std::vector<mp::Real113> attention_value_113(const AttentionProblem& problem, std::int64_t b,
                                             std::int64_t row, std::int64_t head) {
  return attention_by_definition<mp::Real113>(problem, b, row, head, false).value;
}

}  // namespace assay
