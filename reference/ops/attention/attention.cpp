#include "reference/ops/attention/attention.hpp"

#include "reference/ops/attention/bounds_problem.hpp"
#include "reference/ops/attention/certified.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/detap.hpp"

namespace assay {
namespace {

std::vector<Truth> truth(const Attributes& attributes, const TensorSet& inputs, const Contract& contract) {
  const AttentionProblem problem(attributes, inputs);
  AttentionProblem converted = problem;
  const Conversions conversions = apply_conversions(converted, contract);
  const CertifiedAttention exact = certified_attention(converted);
  AttentionLimits limits = detap_limits(converted, exact, contract, conversions);
  if (contract.text("level") != "detap") {
    // Around what the declared order and casts give, not around the real output: bounds.hpp.
    limits = leveled_limits(problem, contract, std::move(limits));
    return {{"out", std::move(limits.value), std::move(limits.limit),
             "reference/ops/attention/bounds: level " + std::string(contract.text("level")) +
                 ", keys and products in the declared order"}};
  }
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
