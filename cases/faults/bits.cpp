// Single bits, and what the injections share.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cases/faults/families.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fault_families {

void no_site(const FaultSite& site, std::string_view needs) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: this fault needs {}", site.op.name, needs));
}

const TensorSpec& first_data(const FaultSite& site) {
  const auto found = std::ranges::find(site.tensors, TensorRole::data, &TensorSpec::role);
  if (found == site.tensors.end()) no_site(site, "a tensor of real numbers");
  return *found;
}

std::span<std::byte> payload_bytes(Encoded& tensor, std::int64_t first, std::int64_t count) {
  std::vector<std::byte>& bytes = tensor.planes.front().bytes;
  const auto elements = static_cast<std::size_t>(element_count(tensor.shape));
  const std::size_t begin = static_cast<std::size_t>(first) * bytes.size() / elements;
  const std::size_t end = static_cast<std::size_t>(first + count) * bytes.size() / elements;
  return std::span(bytes).subspan(begin, end - begin);
}

namespace {

void write_code(Encoded& tensor, std::int64_t element, std::uint32_t code) {
  const auto bytes = payload_bytes(tensor, element, 1);
  std::memcpy(bytes.data(), &code, bytes.size());
}

}  // namespace

void put_code(const FaultSite& site, Encoded& tensor, std::int64_t element, double special) {
  const ScalarFormat* scalar = find_scalar_format(tensor.planes.front().spec.format);
  if (scalar == nullptr || !has_nan(*scalar) || (std::isinf(special) && scalar->specials != Specials::ieee))
    no_site(site,
            fmt::format("a format whose codes can hold {}; those of {} cannot", special, tensor.format));
  EncodePolicy ieee;
  ieee.overflow = Overflow::ieee;
  write_code(tensor, element, encode(*scalar, special, ieee));
}

std::span<std::int32_t> entries(TensorSet& set, const FaultSite& site, std::string_view index_tensor) {
  const auto found = set.find(std::string(index_tensor));
  if (found == set.end()) no_site(site, fmt::format("a tensor '{}'", index_tensor));
  auto& bytes = found->second.planes.front().bytes;
  return {reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)};
}

namespace {

// The bytes of what is stored as a whole around one element that counts: a visible key's in attention, the
// first tensor's seeded one elsewhere.
std::span<std::byte> unit_that_counts(const FaultSite& site, TensorSet& set, bool blocks_only) {
  const auto found = std::ranges::find_if(site.tensors, [&](const TensorSpec& t) {
    return t.role == TensorRole::data && (!blocks_only || format(t.format).kind == FormatKind::block);
  });
  if (found == site.tensors.end()) no_site(site, "a block format");
  const TensorSpec& first = *found;
  const bool attention = site.op.name == "attention";
  Encoded& tensor = set.at(attention ? "k" : first.name);
  std::int64_t element;
  if (attention) {
    element = key_elements(site, "k", 0, seldom_seen_key(site), 0).first;
  } else {
    element = static_cast<std::int64_t>(
        Stream(site.seed, "fault").below(0, static_cast<std::uint64_t>(element_count(tensor.shape))));
  }
  // 4-bit scalars come in pairs; other scalars alone.
  const Format& f = format(tensor.format);
  const std::int64_t whole = f.block_elements;
  return payload_bytes(tensor, element / whole * whole, whole);
}

}  // namespace

void payload_bit(const FaultSite& site, TensorSet& set) {
  unit_that_counts(site, set, false).back() ^= std::byte{0x80};
}

void code_bit(const FaultSite& site, TensorSet& set) {
  const auto unit = unit_that_counts(site, set, true);
  if (unit.size() < 8) no_site(site, "a block format");
  unit[unit.size() / 2] ^= std::byte{0x40};
}

void sign_mask_bit(const FaultSite& site, TensorSet& set) {
  const auto signs = entries(set, site, "signs");
  signs[0] = static_cast<std::int32_t>(static_cast<std::uint32_t>(signs[0]) ^
                                       (1U << Stream(site.seed, "fault").below(0, 32)));
}

// Encoders are symmetric or nearly so: -128 stands in no tensor that they made, and in those of others. Two
// of them stand side by side, in every tensor at the same columns: -128 * -128 twice is one more than 16 bits
// hold.
void least_codes(const FaultSite& site, TensorSet& set) {
  bool found = false;
  for (const TensorSpec& t : site.tensors) {
    if (t.role != TensorRole::data) continue;
    Encoded& tensor = set.at(t.name);
    const Format& f = format(t.format);
    if (f.name != "q8_0" && (f.kind == FormatKind::block || f.element != "int8")) continue;
    found = true;
    const std::int64_t columns = t.shape.back(), whole = f.block_elements;
    for (std::int64_t i = 0; i < element_count(t.shape); ++i)
      if (i % columns % 16 < 2)  // the codes end a block, behind its scale
        payload_bytes(tensor, i / whole * whole, whole).last(static_cast<std::size_t>(whole - i % whole))[0] =
            std::byte{0x80};
  }
  if (!found) no_site(site, "8-bit integer codes");
}

// Saturating encoders write no infinity; others' tensors hold them.
void inf_code(const FaultSite& site, TensorSet& set) {
  Encoded& tensor = set.at(first_data(site).name);
  const auto count = static_cast<std::uint64_t>(element_count(tensor.shape));
  put_code(site, tensor, static_cast<std::int64_t>(Stream(site.seed, "fault").below(0, count)),
           std::numeric_limits<double>::infinity());
}

// CUDA's canonical NaN in f32 is 0x7fffffff: one more, by a half of the last place that is kept, and it is
// 0x80000000.
void nan_all_ones(const FaultSite& site, TensorSet& set) {
  Encoded& tensor = set.at(first_data(site).name);
  const ScalarFormat* scalar = find_scalar_format(tensor.format);
  if (scalar == nullptr || scalar->specials != Specials::ieee || scalar->storage_bytes < 2)
    no_site(site, "a first tensor in f32, f16 or bf16");
  const std::uint32_t code = (std::uint32_t{1} << (scalar->bits - 1)) - 1;
  const auto count = static_cast<std::uint64_t>(element_count(tensor.shape));
  write_code(tensor, static_cast<std::int64_t>(Stream(site.seed, "fault").below(0, count)), code);
}

// A format with a sign and more than one NaN has NaNs that no encoder here writes. Each tensor of such codes
// gets one where the others can be seen beside it: not in an only row, and of attention not in K, whose NaN
// reaches all of its rows (nan_visible_key).
void negative_nan(const FaultSite& site, TensorSet& set) {
  const bool attention = site.op.name == "attention";
  const auto put = [&](const TensorSpec& t) {
    Encoded& tensor = set.at(t.name);
    const ScalarFormat& f = *find_scalar_format(tensor.planes.front().spec.format);
    const std::uint32_t sign = std::uint32_t{1} << (f.bits - 1);
    const std::uint32_t least = max_finite_code(f) + (f.specials == Specials::ieee ? 2 : 1);
    const Stream stream(site.seed, "fault");
    const auto code = static_cast<std::uint32_t>(sign | (least + stream.below(0, sign - least)));
    const KeyElements among = attention && t.name == "v"
                                  ? key_elements(site, "v", 0, seldom_seen_key(site), 0)
                                  : KeyElements{0, element_count(t.shape)};
    const auto chosen = stream.below(1, static_cast<std::uint64_t>(among.count));
    write_code(tensor, among.first + static_cast<std::int64_t>(chosen), code);
  };
  std::vector<const TensorSpec*> tensors;
  for (const TensorSpec& t : site.tensors) {
    if (t.role != TensorRole::data || (attention && t.name == "k")) continue;
    const ScalarFormat* f = find_scalar_format(set.at(t.name).planes.front().spec.format);
    if (f != nullptr && f->kind == ScalarKind::floating && f->is_signed && has_nan(*f) &&
        f->specials != Specials::nan_minus_zero)
      tensors.push_back(&t);
  }
  if (tensors.empty()) no_site(site, "a tensor in a format that has a NaN with a sign");
  const auto has_rows = [](const TensorSpec* t) { return element_count(t->shape) > t->shape.back(); };
  if (std::ranges::none_of(tensors, has_rows)) return put(*tensors.front());
  for (const TensorSpec* t : tensors)
    if (has_rows(t)) put(*t);
}

void slots_swapped(const FaultSite& site, TensorSet& set) {
  const auto slots = entries(set, site, "slots");
  if (slots.size() < 2) no_site(site, "two tokens");
  std::swap(slots[0], slots[1]);
}

void wrong_expert(const FaultSite& site, TensorSet& set) {
  const auto experts = static_cast<std::int32_t>(site.attributes.integer("experts"));
  if (experts < 2) no_site(site, "two experts");
  auto& id = entries(set, site, "topk_ids")[0];
  id = (id + 1) % experts;
}

// Routers name an expert once for a token; dispatch by a router's padding, or by replicas of an expert, may
// name it twice.
void repeated_expert(const FaultSite& site, TensorSet& set) {
  if (site.attributes.integer("topk") < 2) no_site(site, "topk >= 2");
  const auto ids = entries(set, site, "topk_ids");
  ids[1] = ids[0];
}

}  // namespace assay::fault_families
