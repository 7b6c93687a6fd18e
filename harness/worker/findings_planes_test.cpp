// What is said of an address or of changed bytes, plane by plane, without a worker.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "harness/worker/findings.hpp"

namespace assay {
namespace {

// Three inputs and two outputs of 12 bytes: which plane, where, and in what words.
struct FivePlanes {
  FivePlanes() {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      BufferPlane plane;
      plane.name = name;
      plane.format = "f32";
      plane.shape = {3};
      plane.bytes = 12, plane.unit_bytes = 4;
      const bool input = std::string_view("abc").find(name[0]) != std::string_view::npos;
      if (input) plane.data = data;
      (input ? call.inputs : call.outputs).push_back(plane);
    }
    set = plane_set(call, 1);
    layout = lay_out(set.shapes, Placement::right);
  }
  RunResult fault(std::size_t plane, std::int64_t at, const char* access) const {
    reply::Crash crash;
    crash.offset = static_cast<std::int64_t>(layout.slots[plane].start) + at;
    crash.access = access;
    RunResult result;
    result.status = RunStatus::crash;
    classify_fault(set, layout, crash, result);
    return result;
  }
  std::array<std::byte, 12> data{};
  WorkerCall call;
  PlaneSet set;
  Layout layout;
};

// The first byte that is mapped is one of a guard, and its nearest plane is the first; none of it lies in
// front.
TEST(FindingsOfAddresses, a_fault_at_either_end_of_the_memory_is_placed_and_one_beyond_is_not) {
  const FivePlanes five;
  const auto start = static_cast<std::int64_t>(five.layout.slots[0].start);
  const RunResult first = five.fault(0, -start, "read"), in_front = five.fault(0, -start - 1, "read");
  EXPECT_EQ(first.plane, "a");
  EXPECT_EQ(in_front.plane, "");
  EXPECT_EQ(in_front.status, RunStatus::crash);
  const auto end = static_cast<std::int64_t>(five.layout.bytes) - start;
  EXPECT_EQ(five.fault(0, end - 1, "read").plane, "e");
  EXPECT_EQ(five.fault(0, end, "read").plane, "");
}

TEST(FindingsOfAddresses, the_nearest_plane_is_named_with_the_distance) {
  const FivePlanes five;
  for (std::size_t plane = 0; plane < 5; ++plane) {
    const std::string name(1, static_cast<char>('a' + plane));
    const RunResult past = five.fault(plane, 12, "write"), far = five.fault(plane, 12 + 400, "read");
    EXPECT_EQ(past.status, RunStatus::overrun);
    EXPECT_EQ(past.plane, name);
    EXPECT_EQ(past.offset, 12);
    EXPECT_EQ(past.reason, "writes out of bounds: right after the last element of " + name);
    EXPECT_EQ(far.status, RunStatus::leak);
    EXPECT_EQ(far.reason, "reads out of bounds: 400 bytes past the last element of " + name);
    const auto slot =
        static_cast<std::int64_t>(five.layout.slots[plane].start - five.layout.slots[plane].offset);
    const RunResult before = five.fault(plane, -slot - 1, "unknown");
    EXPECT_EQ(before.status, RunStatus::overrun);
    EXPECT_EQ(before.plane, name);
    EXPECT_EQ(before.reason, "reads or writes out of bounds: " + std::to_string(slot + 1) +
                                 " bytes in front of the first element of " + name);
    for (const std::int64_t inside : {0, 5, 11}) {
      const RunResult write = five.fault(plane, inside, "write");
      EXPECT_EQ(write.status, plane < 3 ? RunStatus::input_changed : RunStatus::crash);
      if (plane < 3) {
        EXPECT_EQ(write.reason, "writes to an input: byte " + std::to_string(inside) + " of " + name);
      }
      EXPECT_EQ(five.fault(plane, inside, "read").status, RunStatus::crash);
    }
    // Inside the slot, in front of the first element: poison of an input that is read-only.
    EXPECT_EQ(five.fault(plane, -1, "write").status, plane < 3 ? RunStatus::overrun : RunStatus::crash);
    EXPECT_EQ(five.fault(plane, -slot, "write").status, plane < 3 ? RunStatus::overrun : RunStatus::crash);
  }
  reply::Crash nowhere;
  nowhere.access = "write";
  RunResult result;
  // In front of the memory, and its first byte behind it: no plane is to blame.
  for (const std::int64_t outside : {std::int64_t{-1}, static_cast<std::int64_t>(five.layout.bytes)}) {
    nowhere.offset = outside;
    result.status = RunStatus::crash;
    classify_fault(five.set, five.layout, nowhere, result);
    EXPECT_EQ(result.status, RunStatus::crash) << outside;
  }
  classify_fault({}, {}, five.fault(0, 0, "read").signal == 0 ? reply::Crash{} : nowhere, result);
  EXPECT_EQ(result.status, RunStatus::crash);
}

TEST(FindingsOfBytes, every_plane_is_looked_at_and_counted) {
  const FivePlanes five;
  std::vector<std::byte> arena(five.layout.bytes);
  const auto fresh = [&] {
    for (std::size_t i = 0; i < 5; ++i) {
      if (i < 3)
        write_input(arena.data(), *five.set.planes[i], five.set.shapes[i], five.layout.slots[i],
                    Poison::finite);
      else
        poison_output(arena.data(), *five.set.planes[i], five.set.shapes[i], five.layout.slots[i],
                      Poison::nan);
    }
  };
  for (std::size_t plane = 0; plane < 5; ++plane) {
    const std::string name(1, static_cast<char>('a' + plane));
    const std::size_t start = five.layout.slots[plane].start;
    fresh();
    RunResult clean;
    check_memory(arena.data(), five.set, five.layout, Poison::nan, clean);
    EXPECT_EQ(clean.status, RunResult{}.status);
    arena[start - 3] ^= std::byte{1};
    RunResult damaged;
    check_memory(arena.data(), five.set, five.layout, Poison::nan, damaged);
    EXPECT_EQ(damaged.status, RunStatus::overrun);
    EXPECT_EQ(damaged.plane, name);
    EXPECT_EQ(damaged.offset, -3);
    EXPECT_EQ(damaged.reason, "wrote outside the elements: 3 bytes in front of the first element of " + name);
    fresh();
    const Outputs read = read_outputs(arena.data(), five.set, five.layout);
    const auto pages = output_pages(five.set, five.layout);
    const std::uint64_t before = digest(arena.data(), pages);
    EXPECT_EQ(digest(arena.data(), pages), before);
    arena[start + 7] ^= std::byte{1};
    RunResult changed;
    check_memory(arena.data(), five.set, five.layout, Poison::nan, changed);
    EXPECT_EQ(changed.status, plane < 3 ? RunStatus::input_changed : RunResult{}.status);
    RunResult later;
    check_outputs_unchanged(arena.data(), five.set, five.layout, read, later);
    EXPECT_EQ(later.status, plane < 3 ? RunResult{}.status : RunStatus::overrun);
    EXPECT_EQ(digest(arena.data(), pages) == before, plane < 3);
    const RunResult& finding = plane < 3 ? changed : later;
    EXPECT_EQ(finding.plane, name);
    EXPECT_EQ(finding.offset, 7);
  }
  // Two outputs of three units each: what differs, and what was not written.
  const std::vector<std::byte> zeros(12), poison_a(12, std::byte{0xFF}), poison_b(12, std::byte{0x5A});
  for (const std::size_t output : {0, 1}) {
    const std::string name = output == 0 ? "d" : "e";
    Outputs first{zeros, zeros}, second{zeros, zeros};
    RunResult result;
    result.count = 9;
    EXPECT_FALSE(find_difference(five.set, first, second, result));
    second[output][6] = second[output][11] = std::byte{1};
    EXPECT_TRUE(find_difference(five.set, first, second, result));
    EXPECT_EQ(result.plane, name);
    EXPECT_EQ(result.offset, 6);
    EXPECT_EQ(result.unit, 1);
    EXPECT_EQ(result.count, 2);
    first = second = {zeros, zeros};
    std::copy_n(poison_a.begin(), 8, first[output].begin() + 4);
    std::copy_n(poison_b.begin(), 8, second[output].begin() + 4);
    RunResult unwritten;
    check_unwritten(five.set, first, second, unwritten);
    EXPECT_EQ(unwritten.status, RunStatus::unwritten);
    EXPECT_EQ(unwritten.plane, name);
    EXPECT_EQ(unwritten.unit, 1);
    EXPECT_EQ(unwritten.count, 2);
    EXPECT_EQ(unwritten.offset, 4);
    EXPECT_EQ(unwritten.reason, "2 of 3 units of " + name + " were not written, the first is unit 1");
  }
}

}  // namespace
}  // namespace assay
