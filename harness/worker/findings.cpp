#include "harness/worker/findings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace assay {
namespace {

// "4 bytes past the last element of y", for a byte at `at` from the first element.
std::string place(const BufferPlane& plane, const Geometry& shape, std::int64_t at) {
  const auto extent = static_cast<std::int64_t>(shape.extent);
  if (at < 0) return fmt::format("{} bytes in front of the first element of {}", -at, plane.name);
  if (at == extent) return fmt::format("right after the last element of {}", plane.name);
  if (at > extent) return fmt::format("{} bytes past the last element of {}", at - extent, plane.name);
  for (const ByteRange& gap : shape.far)
    if (at >= static_cast<std::int64_t>(gap.first) && at < static_cast<std::int64_t>(gap.first + gap.count))
      return fmt::format("byte {} of {}, in a gap between rows", at, plane.name);
  return fmt::format("byte {} of {}", at, plane.name);
}

std::size_t distance(const Slot& slot, std::size_t at) {
  if (at < slot.offset) return slot.offset - at;
  return at >= slot.offset + slot.bytes ? at - (slot.offset + slot.bytes) + 1 : 0;
}

// Not ==, which goes byte by byte for std::byte.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool unit_differs(const BufferPlane& plane, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::size_t unit) {
  const auto first = static_cast<std::ptrdiff_t>(unit * plane.unit_bytes);
  const auto last = first + static_cast<std::ptrdiff_t>(plane.unit_bytes);
  return !std::equal(a.begin() + first, a.begin() + last, b.begin() + first);
}

}  // namespace

PlaneSet plane_set(const WorkerCall& call, std::size_t alignment) {
  PlaneSet set;
  set.input_count = call.inputs.size();
  for (const BufferPlane& plane : call.inputs) set.planes.push_back(&plane);
  for (const BufferPlane& plane : call.outputs) set.planes.push_back(&plane);
  for (const BufferPlane* plane : set.planes) set.shapes.push_back(geometry(*plane, alignment));
  return set;
}

void classify_fault(const PlaneSet& set, const Layout& layout, const reply::Crash& crash, RunResult& result) {
  if (crash.offset < 0 || static_cast<std::size_t>(crash.offset) >= layout.bytes || layout.slots.empty())
    return;
  const auto fault = static_cast<std::size_t>(crash.offset);
  std::size_t nearest = 0;
  for (std::size_t i = 1; i < layout.slots.size(); ++i) {
    if (distance(layout.slots[i], fault) < distance(layout.slots[nearest], fault)) nearest = i;
  }
  const Slot& slot = layout.slots[nearest];
  const BufferPlane& plane = *set.planes[nearest];
  const Geometry& shape = set.shapes[nearest];
  const std::int64_t at = crash.offset - static_cast<std::int64_t>(slot.start);
  const bool open = std::ranges::any_of(open_pages(shape, slot), [&](const ByteRange& pages) {
    return fault >= pages.first && fault < pages.first + pages.count;
  });
  const bool in_slot = distance(slot, fault) == 0 && open;
  const bool in_elements = in_slot && at >= 0 && at < static_cast<std::int64_t>(shape.extent);
  if (in_slot && (nearest >= set.input_count || crash.access != "write"))
    return;  // allowed, so it is not the cause
  result.plane = plane.name;
  result.offset = at;
  if (in_slot && in_elements) {
    result.status = RunStatus::input_changed;
    result.reason = "writes to an input: " + place(plane, shape, at);
  } else if (crash.access == "read") {
    result.status = RunStatus::leak;
    result.reason = "reads out of bounds: " + place(plane, shape, at);
  } else {
    result.status = RunStatus::overrun;
    result.reason = (crash.access == "write" ? "writes" : "reads or writes") +
                    std::string(" out of bounds: ") + place(plane, shape, at);
  }
}

void check_memory(const std::byte* arena, const PlaneSet& set, const Layout& layout, Poison poison,
                  RunResult& result) {
  for (std::size_t i = set.planes.size(); i-- > 0;) {
    const bool input = i < set.input_count;
    const auto damage = damaged_poison(arena, *set.planes[i], set.shapes[i], layout.slots[i],
                                       input ? input_poison(poison) : poison);
    if (!damage) continue;
    result.status = RunStatus::overrun;
    result.plane = set.planes[i]->name;
    result.offset = *damage;
    result.reason = "wrote outside the elements: " + place(*set.planes[i], set.shapes[i], *damage);
    return;
  }
  for (std::size_t i = 0; i < set.input_count; ++i) {
    const auto changed = first_change(arena, set.planes[i]->data, set.shapes[i], layout.slots[i]);
    if (!changed) continue;
    result.status = RunStatus::input_changed;
    result.plane = set.planes[i]->name;
    result.offset = *changed;
    result.reason = fmt::format("wrote to an input: byte {} of {}", *changed, result.plane);
    return;
  }
}

std::vector<ByteRange> output_pages(const PlaneSet& set, const Layout& layout) {
  std::vector<ByteRange> looked_at;
  std::size_t left = kDigestBytes;
  for (std::size_t i = set.input_count; i < set.planes.size(); ++i) {
    for (const ByteRange& pages : open_pages(set.shapes[i], layout.slots[i])) {
      const std::size_t count = std::min(pages.count, left);
      if (count > 0) looked_at.push_back({pages.first, count});
      left -= count;
    }
  }
  return looked_at;
}

// Four lanes, so that it goes at the speed of the memory. Each step is a bijection of its lane: one word that
// differs alone is always seen.
std::uint64_t digest(const std::byte* arena, const std::vector<ByteRange>& pages) {
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  for (const ByteRange& range : pages) {
    for (std::size_t at = range.first; at < range.first + range.count; at += sizeof lanes) {
      std::array<std::uint64_t, 4> words;
      std::memcpy(words.data(), arena + at, sizeof words);
      for (std::size_t lane = 0; lane < 4; ++lane)
        lanes[lane] = std::rotl((lanes[lane] ^ words[lane]) * 0x9E3779B97F4A7C15U, 29);
    }
  }
  std::uint64_t all = 0;
  for (const std::uint64_t lane : lanes) all = std::rotl((all ^ lane) * 0x9E3779B97F4A7C15U, 31);
  return all;
}

Outputs read_outputs(const std::byte* arena, const PlaneSet& set, const Layout& layout) {
  Outputs outputs;
  for (std::size_t i = set.input_count; i < set.planes.size(); ++i) {
    outputs.push_back(read_output(arena, *set.planes[i], set.shapes[i], layout.slots[i]));
  }
  return outputs;
}

bool outputs_equal(const std::byte* arena, const PlaneSet& set, const Layout& layout, const Outputs& known) {
  for (std::size_t i = set.input_count; i < set.planes.size(); ++i) {
    if (first_change(arena, known[i - set.input_count], set.shapes[i], layout.slots[i])) return false;
  }
  return true;
}

void check_outputs_unchanged(const std::byte* arena, const PlaneSet& set, const Layout& layout,
                             const Outputs& read, RunResult& result) {
  for (std::size_t i = set.input_count; i < set.planes.size(); ++i) {
    const auto changed = first_change(arena, read[i - set.input_count], set.shapes[i], layout.slots[i]);
    if (!changed) continue;
    result.status = RunStatus::overrun;
    result.plane = set.planes[i]->name;
    result.offset = *changed;
    result.reason = fmt::format("wrote after its run ended: byte {} of {}", *changed, result.plane);
    return;
  }
}

bool find_difference(const PlaneSet& set, const Outputs& first, const Outputs& second, RunResult& result) {
  for (std::size_t output = 0; output < second.size(); ++output) {
    const auto& a = first[output];
    const auto& b = second[output];
    if (same_bytes(a, b)) continue;
    const BufferPlane& plane = *set.planes[set.input_count + output];
    result.plane = plane.name;
    result.offset = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    result.unit = result.offset / static_cast<std::int64_t>(plane.unit_bytes);
    result.count = 0;
    for (std::size_t unit = 0; unit < a.size() / plane.unit_bytes; ++unit) {
      result.count += unit_differs(plane, a, b, unit) ? 1 : 0;
    }
    return true;
  }
  return false;
}

void check_unwritten(const PlaneSet& set, const Outputs& nan_run, const Outputs& finite_run,
                     RunResult& result) {
  for (std::size_t output = 0; output < nan_run.size(); ++output) {
    if (same_bytes(nan_run[output], finite_run[output]))
      continue;  // an unwritten unit differs as its poison does
    const BufferPlane& plane = *set.planes[set.input_count + output];
    const Unwritten found =
        unwritten_units(plane, set.shapes[set.input_count + output], nan_run[output], finite_run[output]);
    if (found.count == 0) continue;
    result.status = RunStatus::unwritten;
    result.plane = plane.name;
    result.unit = found.first_unit;
    result.count = found.count;
    result.offset = found.first_unit * static_cast<std::int64_t>(plane.unit_bytes);
    result.reason = fmt::format("{} of {} units of {} were not written, the first is unit {}", found.count,
                                plane.bytes / plane.unit_bytes, plane.name, found.first_unit);
    return;
  }
}

}  // namespace assay
