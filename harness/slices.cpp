#include "harness/slices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace assay {
namespace {

[[noreturn]] void refuse(const std::string& tensor, std::string_view why) {
  throw InputError(InputErrorKind::shape_mismatch, fmt::format("{} cannot be taken apart: {}", tensor, why));
}

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t a = first; a < last; ++a) n *= shape[a];
  return n;
}

// Where a shape depends on the units: the axis, and its elements per unit.
struct Split {
  std::size_t axis = 0;
  std::int64_t per_unit = 0;
  std::int64_t outer = 1, inner = 1;  // elements before and behind it
};
std::optional<Split> split_of(const Shape& whole, const Shape& fewer, std::int64_t count,
                              const std::string& tensor) {
  if (whole == fewer) return std::nullopt;
  if (whole.size() != fewer.size()) refuse(tensor, "its rank changes");
  std::optional<Split> found;
  for (std::size_t a = 0; a < whole.size(); ++a) {
    if (whole[a] == fewer[a]) continue;
    const std::int64_t per_unit = whole[a] / count;
    if (found || per_unit * count != whole[a] || per_unit * (count - 1) != fewer[a])
      refuse(tensor, "no axis of it is made of whole units");
    found = {a, per_unit, product(whole, 0, a), product(whole, a + 1, whole.size())};
  }
  return found;
}

// The plane's bytes, unit by unit: unit from(i) of the old plane at place i of the new one.
std::vector<std::byte> moved(const Plane& plane, const Split& s, std::int64_t old_units,
                             std::int64_t new_units, const std::function<std::int64_t(std::int64_t)>& from,
                             const std::string& tensor) {
  const auto chunks = s.outer * old_units;
  const auto bytes = static_cast<std::int64_t>(plane.bytes.size());
  if (chunks == 0 || bytes % chunks != 0) refuse(tensor, "a unit of it is no whole number of bytes");
  const std::int64_t chunk = bytes / chunks;
  std::vector<std::byte> out(static_cast<std::size_t>(s.outer * new_units * chunk));
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t i = 0; i < new_units; ++i)
      std::copy_n(plane.bytes.begin() + (o * old_units + from(i)) * chunk, chunk,
                  out.begin() + (o * new_units + i) * chunk);
  return out;
}

Inputs rearranged(const Units& units, const Inputs& inputs, const Case& to, std::int64_t new_units,
                  const std::function<std::int64_t(std::int64_t)>& from) {
  Inputs result;
  result.tensors = to.op->tensors(to.attributes);
  const auto fewer = units.fewer.op->tensors(units.fewer.attributes);
  for (std::size_t n = 0; n < inputs.tensors.size(); ++n) {
    const TensorSpec& t = inputs.tensors[n];
    if (t.role == TensorRole::output) continue;
    Encoded tensor = inputs.given().at(t.name);
    const bool kept = std::ranges::find(units.kept, t.name) != units.kept.end();
    if (!kept) {
      const auto less = planes(format(t.format), fewer[n].shape);
      const auto target = planes(format(t.format), result.tensors[n].shape);
      for (std::size_t p = 0; p < tensor.planes.size(); ++p) {
        Plane& plane = tensor.planes[p];
        const auto split = split_of(plane.spec.shape, less[p].shape, units.count, t.name);
        // Scales of blocks that are stored for groups of rows (128 x 4) do not move with their rows.
        if (!split && p > 0 && format(t.format).kind == FormatKind::block &&
            element_count(plane.spec.shape) > 1)
          refuse(t.name, "its scales are stored for groups of units");
        if (split) plane.bytes = moved(plane, *split, units.count, new_units, from, t.name);
        plane.spec = target[p];
        if (plane.bytes.size() != plane.spec.bytes)
          refuse(t.name, "its parts do not have the bytes of the smaller one");
      }
    }
    tensor.shape = result.tensors[n].shape;
    result.set.emplace(t.name, std::move(tensor));
  }
  if (to.op->unused) result.unused = to.op->unused(to.attributes, result.set);
  return result;
}

SharedRanges pieces(const Units& units, std::int64_t new_units,
                    const std::function<std::int64_t(std::int64_t)>& from) {
  SharedRanges all;
  const auto whole = units.whole.op->tensors(units.whole.attributes);
  const auto fewer = units.fewer.op->tensors(units.fewer.attributes);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    if (whole[n].role != TensorRole::output) continue;
    std::vector<SharedRange> here;
    const auto s = split_of(whole[n].shape, fewer[n].shape, units.count, whole[n].name);
    if (!s) refuse(whole[n].name, "it does not depend on the units");
    const std::int64_t chunk = s->per_unit * s->inner;
    for (std::int64_t o = 0; o < s->outer; ++o)
      for (std::int64_t i = 0; i < new_units; ++i)
        here.push_back({(o * units.count + from(i)) * chunk, (o * new_units + i) * chunk, chunk});
    all.push_back(std::move(here));
  }
  return all;
}

// Units of a part, by any tensor's output axis: those of the whole in proportion.
std::int64_t units_of(const Units& units, const Case& part) {
  const auto whole = units.whole.op->tensors(units.whole.attributes);
  const auto fewer = units.fewer.op->tensors(units.fewer.attributes);
  const auto here = part.op->tensors(part.attributes);
  for (std::size_t n = 0; n < whole.size(); ++n)
    if (whole[n].role == TensorRole::output)
      if (const auto s = split_of(whole[n].shape, fewer[n].shape, units.count, whole[n].name))
        return here[n].shape[s->axis] / s->per_unit;
  refuse(std::string(units.whole.op->name), "no output depends on the units");
}

}  // namespace

Inputs sliced(const Units& units, const Inputs& inputs, const Case& part, std::int64_t first) {
  return rearranged(units, inputs, part, units_of(units, part), [&](std::int64_t i) { return first + i; });
}
SharedRanges sliced_pieces(const Units& units, const Case& part, std::int64_t first) {
  return pieces(units, units_of(units, part), [&](std::int64_t i) { return first + i; });
}
Inputs permuted(const Units& units, const Inputs& inputs, std::span<const std::int64_t> order) {
  return rearranged(units, inputs, units.whole, units.count,
                    [&](std::int64_t i) { return order[static_cast<std::size_t>(i)]; });
}
SharedRanges permuted_pieces(const Units& units, std::span<const std::int64_t> order) {
  return pieces(units, units.count, [&](std::int64_t i) { return order[static_cast<std::size_t>(i)]; });
}

}  // namespace assay
