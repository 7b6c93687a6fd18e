#include "harness/culprit/crop.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "harness/input_lists.hpp"

namespace assay::culprit {
namespace {

// For each axis, the old index of every new one. Empty when the axis grows.
std::vector<std::int64_t> kept_indices(std::int64_t old_n, std::int64_t new_n, const Cut& cut) {
  std::vector<std::int64_t> kept;
  if (new_n > old_n) return kept;
  if (new_n < old_n && cut.from > 0 && old_n % cut.from == 0 && new_n % cut.to == 0 &&
      old_n / cut.from == new_n / cut.to) {
    const std::int64_t each = old_n / cut.from;
    for (const std::int64_t group : cut.kept)
      for (std::int64_t i = 0; i < each; ++i) kept.push_back(group * each + i);
    return kept;
  }
  kept.resize(static_cast<std::size_t>(new_n));
  std::iota(kept.begin(), kept.end(), 0);
  return kept;
}

// Calls visit(old row-major index) for every new element in order.
template <typename Visit>
void walk(const Shape& old_shape, const std::vector<std::vector<std::int64_t>>& kept, std::size_t axis,
          std::int64_t base, const Visit& visit) {
  if (axis == kept.size()) return visit(base);
  for (const std::int64_t i : kept[axis]) walk(old_shape, kept, axis + 1, base * old_shape[axis] + i, visit);
}

std::optional<Encoded> cropped_tensor(const Encoded& old, const TensorSpec& wanted, const Cut& cut) {
  if (old.shape.size() != wanted.shape.size()) return std::nullopt;
  if (old.format == wanted.format && old.shape == wanted.shape) return old;
  std::vector<std::vector<std::int64_t>> kept;
  for (std::size_t a = 0; a < old.shape.size(); ++a) {
    kept.push_back(kept_indices(old.shape[a], wanted.shape[a], cut));
    if (wanted.shape[a] > old.shape[a]) return std::nullopt;
  }
  const std::vector<float> numbers = numbers_of(old);
  std::vector<float> left;
  walk(old.shape, kept, 0, 0, [&](std::int64_t i) { left.push_back(numbers[static_cast<std::size_t>(i)]); });
  return encoded_as({wanted.format, wanted.shape, {}}, left);
}

}  // namespace

Cut first_of(std::int64_t from, std::int64_t to) {
  Cut cut{from, to, std::vector<std::int64_t>(static_cast<std::size_t>(to))};
  std::iota(cut.kept.begin(), cut.kept.end(), 0);
  return cut;
}

Cut last_of(std::int64_t from, std::int64_t to) {
  Cut cut = first_of(from, to);
  for (std::int64_t& group : cut.kept) group += from - to;
  return cut;
}

Cut without(std::int64_t from, std::int64_t first, std::int64_t count) {
  Cut cut{from, from - count, {}};
  for (std::int64_t i = 0; i < from; ++i)
    if (i < first || i >= first + count) cut.kept.push_back(i);
  return cut;
}

std::optional<Inputs> cropped(const Specimen& from, const Case& to, const Cut& cut, bool new_indices,
                              const InputLists& lists) {
  Inputs inputs;
  inputs.tensors = to.op->tensors(to.attributes);
  inputs.fault = find_fault(lists, to.fault, to.op->name);
  TensorSet indices;
  if (to.op->indices) to.op->indices(to.attributes, to.seed, indices);
  const auto crop_set = [&](const TensorSet& old, TensorSet& left) {
    for (const TensorSpec& t : inputs.tensors) {
      if (t.role == TensorRole::output) continue;
      const auto found = old.find(t.name);
      if (t.role == TensorRole::index && (new_indices || found == old.end())) {
        left[t.name] = indices.at(t.name);
        continue;
      }
      if (found == old.end()) return false;
      auto tensor = cropped_tensor(found->second, t, cut);
      if (!tensor) return false;
      left[t.name] = std::move(*tensor);
    }
    return true;
  };
  if (!crop_set(from.inputs.set, inputs.set)) return std::nullopt;
  if (inputs.fault != nullptr) {
    if (!from.inputs.clean.empty() && !crop_set(from.inputs.clean, inputs.clean)) return std::nullopt;
    if (!from.inputs.corrupted.empty() && !crop_set(from.inputs.corrupted, inputs.corrupted))
      return std::nullopt;
  }
  if (to.op->unused) inputs.unused = to.op->unused(to.attributes, inputs.set);
  return inputs;
}

std::vector<float> numbers_of(const Encoded& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(element_count(tensor.shape)));
  decode_range(tensor, 0, std::span<float>(numbers));
  return numbers;
}

Encoded encoded_as(const Encoded& like, std::span<const float> numbers) {
  EncodePolicy policy;
  policy.overflow = Overflow::ieee;  // an infinity stays one where the format has it
  return encode_tensor(format(like.format), like.shape, numbers, policy);
}

std::size_t weight_of(const std::vector<float>& numbers) {
  std::size_t weight = 0;
  for (const float x : numbers) {
    if (x == 0) continue;
    const std::uint32_t fraction = std::bit_cast<std::uint32_t>(x) << 9;
    weight += x == 1 ? 1 : fraction == 0 ? 2 : 3 + static_cast<std::size_t>(32 - std::countr_zero(fraction));
  }
  return weight;
}

}  // namespace assay::culprit
