#include "reference/ops/attention/attention.hpp"

#include "reference/ops/attention/certified.hpp"
#include "reference/ops/attention/detap.hpp"

namespace assay {
namespace {

std::vector<Truth> truth(const Attributes& attributes, const TensorSet& inputs, const Contract& contract) {
  const AttentionProblem problem(attributes, inputs);
  const CertifiedAttention exact = certified_attention(problem);
  AttentionLimits limits = detap_limits(problem, exact, contract);
  return {{"out", std::move(limits.value), std::move(limits.limit),
           "reference/ops/attention/detap: logits, exp and rescales, cast of the weights, PV, row sum, "
           "quotient; any order"}};
}

}  // namespace

const Op kAttention{"attention",
                    "out = softmax(cap(scale q k^T) - slope |i - j|) v over the visible keys",
                    attention_attributes(),
                    attention_contract(),
                    attention_tensors,
                    attention_indices,
                    truth};

}  // namespace assay
