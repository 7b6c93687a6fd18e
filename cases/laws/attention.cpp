// Laws of attention: chunks of a prefill, groups of heads, and where pages lie.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "cases/laws/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::law_families {
namespace {

bool is_attention(const LawCall& base) { return base.c.op->name == "attention"; }
std::int64_t integer(const LawCall& base, std::string_view name) { return base.c.attributes.integer(name); }
const std::string& text(const LawCall& base, std::string_view name) { return base.c.attributes.text(name); }

std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const Stream stream(seed, "order");
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

}  // namespace

std::vector<std::int64_t> chunk_points(const LawCall& base) {
  if (!is_attention(base) || integer(base, "q") < 2 || integer(base, "page") > 0 ||
      integer(base, "batch") > 1 || (text(base, "mask") != "causal" && text(base, "mask") != "window"))
    return {};
  const std::int64_t q = integer(base, "q");
  std::set<std::int64_t> cuts;
  for (const std::int64_t cut : {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128})
    if (cut < q) cuts.insert({cut, -cut});
  cuts.insert({q - 1, 1 - q});
  return {cuts.begin(), cuts.end()};
}

// Rows [0, cut) with the keys that they may see; or, as -n, the last n rows with all keys.
Relation chunk(const LawCall& base, std::int64_t point, const InputLists&) {
  const std::int64_t q = integer(base, "q"), len = integer(base, "len");
  if (point == 0 || std::abs(point) >= q || len < q)
    throw InputError(InputErrorKind::bad_value, "chunk: a cut inside the query rows");
  const std::int64_t rows = std::abs(point), first = point > 0 ? 0 : q - rows;
  const std::int64_t keys = point > 0 ? len - (q - rows) : len;
  // First the rows, then the keys: each step takes one axis of each tensor apart.
  const Case fewer_rows = changed(base.c, {{"q", std::to_string(q - 1)}});
  const Case some_rows = changed(base.c, {{"q", std::to_string(rows)}});
  const Units by_rows{base.c, fewer_rows, q};
  Inputs inputs = sliced(by_rows, base.inputs, some_rows, first);
  const SharedRanges pieces = sliced_pieces(by_rows, some_rows, first);
  const Case part = changed(some_rows, {{"len", std::to_string(keys)}});
  if (keys == len) return {{part, std::move(inputs)}, pieces};
  // No output depends on the keys: the tensors that do are cut by hand.
  const auto target = part.op->tensors(part.attributes);
  Inputs result;
  result.tensors = target;
  for (const TensorSpec& t : target) {
    if (t.role == TensorRole::output) continue;
    const Encoded& old = inputs.set.at(t.name);
    Encoded tensor{t.format, t.shape, {}};
    const auto specs = planes(format(t.format), t.shape);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      const std::vector<std::byte>& bytes = old.planes[p].bytes;
      // One sequence: its keys stand in front, and the first of them are the first bytes of every plane.
      if (specs[p].bytes > bytes.size() ||
          (specs[p].shape != old.planes[p].spec.shape && t.name != "k" && t.name != "v"))
        throw InputError(InputErrorKind::shape_mismatch, "chunk: " + t.name + " cannot be cut");
      tensor.planes.push_back(
          {specs[p], {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(specs[p].bytes)}});
    }
    result.set.emplace(t.name, std::move(tensor));
  }
  if (part.op->unused) result.unused = part.op->unused(part.attributes, result.set);
  return {{part, std::move(result)}, pieces};
}

std::vector<std::int64_t> heads_points(const LawCall& base) {
  if (!is_attention(base) || integer(base, "kv_heads") < 2) return {};
  return {1, 2};
}

// Whole groups: a KV head with its query heads. 1: backwards, 2: shuffled.
Relation heads(const LawCall& base, std::int64_t point, const InputLists&) {
  const std::int64_t groups = integer(base, "kv_heads"), size = integer(base, "heads") / groups;
  auto places = shuffled(groups, base.c.seed);
  if (point == 1)
    for (std::int64_t i = 0; i < groups; ++i) places[static_cast<std::size_t>(i)] = groups - 1 - i;
  const Case fewer = changed(
      base.c, {{"heads", std::to_string(size * (groups - 1))}, {"kv_heads", std::to_string(groups - 1)}});
  const Units units{base.c, fewer, groups};
  return {{base.c, permuted(units, base.inputs, places)}, permuted_pieces(units, places)};
}

std::vector<std::int64_t> pages_points(const LawCall& base) {
  if (!is_attention(base) || integer(base, "page") == 0) return {};
  return {1, 2};
}

// The pages of K and V moved, and the table with them.
Relation pages(const LawCall& base, std::int64_t point, const InputLists&) {
  Relation r{base, {}};
  TensorSet& set = r.call.inputs.set;
  const std::int64_t count = set.at("k").shape[0];
  const auto from = shuffled(count, base.c.seed + static_cast<std::uint64_t>(point));
  for (const char* name : {"k", "v"})
    for (Plane& plane : set.at(name).planes) {
      const auto all = static_cast<std::int64_t>(plane.bytes.size());
      if (plane.spec.shape.empty() || element_count(plane.spec.shape) < count) continue;  // one scale for all
      if (plane.spec.shape[0] % count != 0)
        throw InputError(InputErrorKind::shape_mismatch, "pages: scales that span pages");
      const std::int64_t chunk = all / count;
      std::vector<std::byte> moved(plane.bytes.size());
      for (std::int64_t i = 0; i < count; ++i)
        std::copy_n(plane.bytes.begin() + from[static_cast<std::size_t>(i)] * chunk, chunk,
                    moved.begin() + i * chunk);
      plane.bytes = std::move(moved);
    }
  auto& table = set.at("page_table").planes.at(0).bytes;
  for (std::size_t i = 0; i < table.size(); i += sizeof(std::int32_t)) {
    std::int32_t id = 0;
    std::memcpy(&id, &table[i], sizeof id);
    if (id >= 0 && id < count) id = static_cast<std::int32_t>(std::ranges::find(from, id) - from.begin());
    std::memcpy(&table[i], &id, sizeof id);
  }
  r.call.inputs.unused = base.c.op->unused(base.c.attributes, set);
  for (const auto& t : base.inputs.tensors)
    if (t.role == TensorRole::output) r.pieces.push_back({{0, 0, element_count(t.shape)}});
  return r;
}

}  // namespace assay::law_families
