#include "reference/ops/second_opinion.hpp"

#include <algorithm>
#include <set>

#include "reference/arithmetic/accumulator.hpp"

namespace assay {
namespace {

// Of the first thousand elements: a tensor that repeats itself does so from the beginning.
bool has_few_values(const Encoded& tensor) {
  constexpr std::size_t kLooked = 1000;
  const std::vector<double> values = decode_tensor(tensor);
  const std::size_t count = std::min(kLooked, values.size());
  std::set<double> seen;
  for (std::size_t i = 0; i < count && seen.size() <= kFewValues; ++i) seen.insert(values[i]);
  return count > kFewValues && seen.size() <= kFewValues;
}

}  // namespace

std::optional<Contract> second_opinion(const Op& op, const Attributes& attributes, const TensorSet& inputs,
                                       const Contract& contract) {
  Contract likely = contract;
  bool changed = false;
  for (const KeySpec& key : op.contract) {
    if (key.kind == KeyKind::accumulator &&
        accumulator(contract.text(key.name)).kind == Accumulator::Kind::unit)
      return std::nullopt;
    if (key.kind != KeyKind::order || contract.text(key.name) != "any") continue;
    likely = likely.with(key.name, "likely");
    changed = true;
  }
  if (!changed) return std::nullopt;
  for (const TensorSpec& spec : op.tensors(attributes))
    if (spec.role == TensorRole::data && has_few_values(inputs.at(spec.name))) return std::nullopt;
  return likely;
}

void keep_silent_with(std::span<const Truth> proof, std::vector<Truth>& opinion) {
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  for (std::size_t o = 0; o < opinion.size(); ++o)
    for (std::size_t i = 0; i < opinion[o].limit.size(); ++i)
      if (!(proof[o].limit[i] < kNothing)) opinion[o].limit[i] = kNothing;
}

}  // namespace assay
