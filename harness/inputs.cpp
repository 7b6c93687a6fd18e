#include "harness/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "harness/case_file.hpp"
#include "harness/input_lists.hpp"
#include "reference/parallel.hpp"

namespace assay {

namespace {

enum class Stage : std::uint8_t { fill, before_fault, after_fault };

// Tensors side by side: those of a million keys are the only large ones.
TensorSet encode_values(const Case& c, const std::vector<TensorSpec>& tensors, const TensorSet& indices,
                        Values& values, Stage stage) {
  TensorSet set = indices;
  std::vector<const TensorSpec*> data;
  for (const auto& t : tensors) {
    if (t.role != TensorRole::data) continue;
    const auto found = values.find(t.name);
    if (found == values.end() || static_cast<std::int64_t>(found->second.size()) != element_count(t.shape))
      throw InputError(
          InputErrorKind::shape_mismatch,
          fmt::format("fill {} wrote {} elements of {}{}", c.fill,
                      found == values.end() ? 0 : found->second.size(), t.name, to_string(t.shape)));
    data.push_back(&t);
    set[t.name];
  }
  parallel_units(data.size(), [&](std::size_t i) {
    const TensorSpec& t = *data[i];
    std::vector<float>& own = values.find(t.name)->second;
    EncodePolicy policy;
    policy.seed = c.seed;
    // Encoders saturate; an infinity that a fault put there stays one where the format has it.
    if (stage == Stage::after_fault && std::ranges::any_of(own, [](float x) { return std::isinf(x); }))
      policy.overflow = Overflow::ieee;
    set.find(t.name)->second = encode_tensor(format(t.format), t.shape, own, policy);
    if (stage != Stage::before_fault) own = {};  // a million-key cache need not be held twice
  });
  return set;
}

}  // namespace

Inputs make_inputs(const Case& c, const InputLists& lists) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Inputs inputs;
  inputs.tensors = c.op->tensors(c.attributes);
  if (const auto path = file_of_fill(c.fill)) {
    inputs.fault = find_fault(lists, c.fault, c.op->name);
    take_inputs(c, *path, inputs);
    if (c.op->unused) inputs.unused = c.op->unused(c.attributes, inputs.set);
    return inputs;
  }
  TensorSet indices;
  if (c.op->indices) c.op->indices(c.attributes, c.seed, indices);
  Values values;
  find_fill(lists, c.fill, c.op->name).make({*c.op, c.attributes, inputs.tensors, indices, c.seed}, values);
  const auto filled = Clock::now();
  inputs.fault = find_fault(lists, c.fault, c.op->name);
  const Fault* f = inputs.fault;
  inputs.set =
      encode_values(c, inputs.tensors, indices, values, f != nullptr ? Stage::before_fault : Stage::fill);
  if (f != nullptr) {
    const FaultSite site{*c.op, c.attributes, inputs.tensors, inputs.set, values, c.seed};
    TensorSet faulted = inputs.set;
    if (f->values != nullptr) {
      Values changed = values;
      f->values(site, changed);
      faulted = encode_values(c, inputs.tensors, indices, changed, Stage::after_fault);
    }
    if (f->bytes != nullptr) f->bytes(site, faulted);
    if (f->kind == FaultKind::corruption) {
      inputs.corrupted = std::move(faulted);
    } else {
      inputs.clean = std::exchange(inputs.set, std::move(faulted));
    }
  }
  inputs.fill_seconds = std::chrono::duration<double>(filled - start).count();
  inputs.encode_seconds = std::chrono::duration<double>(Clock::now() - filled).count();
  if (c.op->unused) inputs.unused = c.op->unused(c.attributes, inputs.set);
  return inputs;
}

}  // namespace assay
