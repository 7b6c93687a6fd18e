#include "harness/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "harness/case_file.hpp"
#include "harness/input_lists.hpp"
#include "reference/parallel.hpp"

namespace assay {

namespace {

enum class Stage : std::uint8_t { fill, before_fault, after_fault };

// What was encoded before a fault: a tensor of the same numbers is that one again.
struct Encoding {
  const Values& values;
  const TensorSet& set;

  const Encoded* of(const std::string& name, const std::vector<float>& now) const {
    // By bits, for a NaN is not equal to itself; an infinity is encoded otherwise after a fault.
    const std::vector<float>& had = values.at(name);
    const bool same = had.size() == now.size() &&
                      std::memcmp(had.data(), now.data(), now.size() * sizeof(float)) == 0 &&
                      std::ranges::none_of(now, [](float x) { return std::isinf(x); });
    return same ? &set.at(name) : nullptr;
  }
};

// Into the range of a tensor that has one: op.hpp.
float mapped(float x, const TensorSpec& t) {
  if (std::isnan(x)) return x;
  const double share = std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::fabs(static_cast<double>(x)));
  return static_cast<float>(std::clamp(t.low + (t.high - t.low) * (1 + share) / 2, t.low, t.high));
}

// Tensors side by side: those of a million keys are the only large ones.
TensorSet encode_values(const Case& c, const std::vector<TensorSpec>& tensors, const TensorSet& indices,
                        Values& values, Stage stage, const Encoding* before = nullptr) {
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
    if (const Encoded* known = before != nullptr ? before->of(t.name, own) : nullptr) {
      set.find(t.name)->second = *known;
      return;
    }
    if (stage != Stage::after_fault && std::isfinite(t.low))
      for (float& x : own) x = mapped(x, t);
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

// A case without its fault.
struct Filled {
  std::vector<TensorSpec> tensors;
  TensorSet indices, set;
  Values values;  // kept where a fault follows
  double fill_seconds = 0;
};
Filled filled(const Case& c, const InputLists& lists, Stage stage) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Filled made;
  made.tensors = c.op->tensors(c.attributes);
  if (c.op->indices) c.op->indices(c.attributes, c.seed, made.indices);
  find_fill(lists, c.fill, c.op->name)
      .make({*c.op, c.attributes, made.tensors, made.indices, c.seed}, made.values);
  made.fill_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  made.set = encode_values(c, made.tensors, made.indices, made.values, stage);
  return made;
}

TensorSet faulted(const Case& c, const Filled& before, const Fault& f) {
  const FaultSite site{*c.op, c.attributes, before.tensors, before.set, before.values, c.seed};
  TensorSet set = before.set;
  if (f.values != nullptr) {
    Values changed = before.values;
    f.values(site, changed);
    const Encoding known{before.values, before.set};
    set = encode_values(c, before.tensors, before.indices, changed, Stage::after_fault, &known);
  }
  if (f.bytes != nullptr) f.bytes(site, set);
  return set;
}

}  // namespace

Inputs make_inputs(const Case& c, const InputLists& lists) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Inputs inputs;
  if (const auto path = file_of_fill(c.fill)) {
    inputs.tensors = c.op->tensors(c.attributes);
    inputs.fault = find_fault(lists, c.fault, c.op->name);
    take_inputs(c, *path, inputs);
    if (c.op->unused) inputs.unused = c.op->unused(c.attributes, inputs.set);
    return inputs;
  }
  const Fault* f = inputs.fault = find_fault(lists, c.fault, c.op->name);
  Filled made = filled(c, lists, f != nullptr ? Stage::before_fault : Stage::fill);
  if (f == nullptr) {
    inputs.set = std::move(made.set);
  } else if (f->kind == FaultKind::corruption) {
    inputs.corrupted = faulted(c, made, *f);
    inputs.set = std::move(made.set);
  } else {
    inputs.set = faulted(c, made, *f);
    inputs.clean = std::move(made.set);
  }
  inputs.tensors = std::move(made.tensors);
  inputs.fill_seconds = made.fill_seconds;
  inputs.encode_seconds = std::chrono::duration<double>(Clock::now() - start).count() - inputs.fill_seconds;
  if (c.op->unused) inputs.unused = c.op->unused(c.attributes, inputs.set);
  return inputs;
}

void check_inputs(const Case& c, const InputLists& lists) {
  (void)find_fault(lists, c.fault, c.op->name);
  const auto path = file_of_fill(c.fill);
  if (!path) {
    (void)find_fill(lists, c.fill, c.op->name);
    return;
  }
  const Inputs inputs = make_inputs(c, lists);
  try {
    (void)c.op->truth(c.attributes, inputs.set, Contract::parse("", c.op->contract));
  } catch (const InputError& e) {
    const std::string_view text = e.what();
    throw InputError(e.kind(),
                     fmt::format("case file '{}': {}", *path, text.substr(to_string(e.kind()).size() + 2)));
  }
}

struct FaultSites::Before : Filled {};

FaultSites::FaultSites(const InputLists& lists) : lists_(lists) {}
FaultSites::~FaultSites() = default;

bool FaultSites::finds(const Case& c) {
  constexpr std::size_t kKept = 256;  // inputs of plain sizes: some tens of megabytes
  Case plain = c;
  plain.fault = "none";
  if (known_.size() > kKept) known_.clear();
  const auto [at, missing] = known_.try_emplace(plain.inputs());
  try {
    if (missing) at->second = std::make_unique<Before>(Before{filled(plain, lists_, Stage::before_fault)});
    if (!at->second) return false;
    if (const Fault* f = find_fault(lists_, c.fault, c.op->name)) (void)faulted(c, *at->second, *f);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace assay
