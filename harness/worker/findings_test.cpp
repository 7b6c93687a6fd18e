// What a kernel does to memory that is not its own, and to its outputs: each misdeed has its own verdict.
#include "harness/worker/findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

class Findings : public WorkerFixture {};

TEST_F(Findings, OneElementPastTheEndIsAnOverrun) {
  const RunResult result = run_variant("write_past_end");
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(result.signal, SIGSEGV);  // in the guard, at once
}

TEST_F(Findings, OneElementInFrontOfTheStartIsAnOverrun) {
  const RunResult result = run_variant("write_before_start");
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.offset, -4);
}

TEST_F(Findings, AWriteIntoTheGapBetweenRowsIsAnOverrun) {
  const RunResult result = run_variant("write_into_gap", 16);
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.offset, 6 * 4);
}

TEST_F(Findings, RowsGigabytesApartAreSeenLikeOthers) {
  const std::int64_t gap = std::int64_t{3} << 30;
  EXPECT_EQ(run_variant("correct", gap).status, RunStatus::done);
  const RunResult near = run_variant("write_into_gap", gap);
  EXPECT_EQ(near.status, RunStatus::overrun) << near.reason;
  EXPECT_EQ(near.offset, 6 * 4);
  EXPECT_EQ(run_variant("read_gap", gap).status, RunStatus::leak);
  EXPECT_EQ(run_variant("skip_row", gap).unit, 18);
}

TEST_F(Findings, AnAddressThatWrapsIntoTheHoleBetweenRowsIsNamed) {
  TwiceCall call("correct", 4, 6, std::int64_t{3} << 30);
  const PlaneSet set = plane_set(call.request().call, 1);
  const Layout layout = lay_out(set.shapes, Placement::right);
  for (const std::size_t plane : {0, 1}) {
    const auto middle = static_cast<std::int64_t>(layout.slots[plane].start) + (std::int64_t{1} << 30);
    for (const bool write : {false, true}) {
      RunResult result;
      result.status = RunStatus::crash;
      reply::Crash crash;
      crash.offset = middle;
      crash.access = write ? "write" : "read";
      classify_fault(set, layout, crash, result);
      EXPECT_EQ(result.status, write ? RunStatus::overrun : RunStatus::leak);
      EXPECT_EQ(result.plane, plane == 0 ? "x" : "y");
      EXPECT_EQ(result.offset, std::int64_t{1} << 30);
      EXPECT_NE(result.reason.find("in a gap between rows"), std::string::npos) << result.reason;
    }
  }
}

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

TEST(FindingsOfAddresses, TheNearestPlaneIsNamedWithTheDistance) {
  const FivePlanes five;
  for (std::size_t plane = 0; plane < 5; ++plane) {
    const std::string name(1, static_cast<char>('a' + plane));
    const RunResult past = five.fault(plane, 12, "write"), far = five.fault(plane, 12 + 400, "read");
    EXPECT_EQ(past.status, RunStatus::overrun);
    EXPECT_EQ(past.plane, name);
    EXPECT_EQ(past.offset, 12);
    EXPECT_EQ(past.reason, "writes out of bounds: 0 bytes past the last element of " + name);
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
  nowhere.offset = -1;
  RunResult result;
  result.status = RunStatus::crash;
  classify_fault(five.set, five.layout, nowhere, result);
  EXPECT_EQ(result.status, RunStatus::crash);
  classify_fault({}, {}, five.fault(0, 0, "read").signal == 0 ? reply::Crash{} : nowhere, result);
  EXPECT_EQ(result.status, RunStatus::crash);
}

TEST(FindingsOfBytes, EveryPlaneIsLookedAtAndCounted) {
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
    for (const bool check_inputs : {false, true}) {
      fresh();
      RunResult clean;
      check_memory(arena.data(), five.set, five.layout, Poison::nan, check_inputs, clean);
      EXPECT_EQ(clean.status, RunResult{}.status);
      arena[start - 3] ^= std::byte{1};
      RunResult damaged;
      check_memory(arena.data(), five.set, five.layout, Poison::nan, check_inputs, damaged);
      if (plane >= 3 || check_inputs) {
        EXPECT_EQ(damaged.status, RunStatus::overrun);
        EXPECT_EQ(damaged.plane, name);
        EXPECT_EQ(damaged.offset, -3);
        EXPECT_EQ(damaged.reason,
                  "wrote outside the elements: 3 bytes in front of the first element of " + name);
      } else {
        EXPECT_EQ(damaged.status, RunResult{}.status);
      }
      fresh();
      arena[start + 7] ^= std::byte{1};
      RunResult changed;
      check_memory(arena.data(), five.set, five.layout, Poison::nan, check_inputs, changed);
      EXPECT_EQ(changed.status, plane < 3 && check_inputs ? RunStatus::input_changed : RunResult{}.status);
      if (plane < 3 && check_inputs) {
        EXPECT_EQ(changed.plane, name);
        EXPECT_EQ(changed.offset, 7);
      }
    }
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

TEST_F(Findings, AnOverrunIntoAlignmentSlackIsFoundInThePoison) {
  TwiceCall call("write_past_end");
  call.request().alignment = 64;  // 96 bytes of elements, 32 of slack
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(result.signal, 0);
}

TEST_F(Findings, ARowThatIsNotWrittenIsUnwritten) {
  const RunResult result = run_variant("skip_row");
  EXPECT_EQ(result.status, RunStatus::unwritten) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.unit, 18);
  EXPECT_EQ(result.count, 6);
  EXPECT_EQ(run_variant("skip_everything", 16).count, 24);
}

TEST_F(Findings, AValueThatEqualsThePoisonIsNotTakenForUnwritten) {
  EXPECT_EQ(run_variant("write_poison_values").status, RunStatus::done);
}

TEST_F(Findings, UnwrittenIsFoundInANondeterministicBackendToo) {
  TwiceCall call("skip_row");
  call.request().deterministic = false;
  EXPECT_EQ(run_then_correct(call).status, RunStatus::unwritten);
}

TEST_F(Findings, OneRowReadPastTheEndIsALeak) {
  const RunResult result = run_variant("read_row_past_end");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.plane, "x");
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(run_variant("read_row_past_end", 6000).status, RunStatus::leak) << "a gap of more than a page";
}

TEST_F(Findings, WhatALargerCallCouldTouchIsAGuardAgain) {
  TwiceCall large("correct", 64, 256);
  EXPECT_EQ(run(large).status, RunStatus::done);
  const RunResult result = run_variant("read_row_past_end");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.signal, SIGSEGV);
}

TEST_F(Findings, AReadInFrontOfTheStartIsALeak) {
  const RunResult result = run_variant("read_before_start");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.offset, -4);
}

TEST_F(Findings, OtherBitsOnTheSecondCallAreNondeterministic) {
  for (const char* variant : {"other_bits", "other_bits_every_second_time"}) {
    const RunResult result = run_variant(variant);
    EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
    EXPECT_EQ(result.unit, 1);
    EXPECT_EQ(result.count, 1);
    EXPECT_FALSE(result.depends_on_address);
    TwiceCall repeated(variant);
    repeated.request().repeats = 1;
    repeated.request().second_run = false;
    EXPECT_EQ(run(repeated).status, RunStatus::nondeterministic);
  }
}

TEST_F(Findings, OtherBitsInOneRunOnlyAreNotBlamedOnTheAddress) {
  const RunResult result = run_variant("other_bits_once");
  EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
  EXPECT_FALSE(result.depends_on_address);
}

TEST_F(Findings, OtherBitsAreAllowedWhenDeclared) {
  TwiceCall call("other_bits");
  call.request().deterministic = false;
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::done);
  ASSERT_EQ(result.second.size(), 1U);
  EXPECT_NE(result.outputs, result.second);
}

TEST_F(Findings, BitsThatDependOnTheAddressAreNondeterministicAndSaidToBeSo) {
  const RunResult result = run_variant("bits_by_address");
  EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
  EXPECT_TRUE(result.depends_on_address);
  TwiceCall fixed("bits_by_address");
  fixed.request().vary_placement = false;
  EXPECT_EQ(run(fixed).status, RunStatus::done);
}

TEST_F(Findings, AResultThatDependsOnAGapIsALeak) {
  EXPECT_EQ(run_variant("read_gap", 16).status, RunStatus::leak);
  EXPECT_EQ(run_variant("copy_poison", 16).status, RunStatus::leak) << "written, with poison: not unwritten";
}

TEST_F(Findings, AResultThatDependsOnAnUnusedRangeIsALeak) {
  for (const char* variant : {"read_last_row", "zero_last_row"}) {
    TwiceCall call(variant);
    call.x().unused = {{18 * 4, 6 * 4}};
    call.x().poison[0] = {std::byte{0}, std::byte{0}, std::byte{0x80},
                          std::byte{0xFF}};  // -Inf against 5A5A5A5A
    const RunResult result = run_then_correct(call);
    EXPECT_EQ(result.status, variant == std::string("zero_last_row") ? RunStatus::done : RunStatus::leak);
  }
}

TEST_F(Findings, AWriteToAnUnusedRangeOfTheOutputIsAnOverrun) {
  TwiceCall skips("skip_row");
  skips.y().unused = {{18 * 4, 6 * 4}};
  EXPECT_EQ(run_then_correct(skips).status, RunStatus::done);
  TwiceCall writes("correct");
  writes.y().unused = {{18 * 4, 6 * 4}};
  const RunResult result = run_then_correct(writes);
  EXPECT_EQ(result.status, RunStatus::overrun);
  EXPECT_EQ(result.offset, 18 * 4);
}

TEST_F(Findings, AWriteToAnInputIsFound) {
  const RunResult result = run_variant("change_input");
  EXPECT_EQ(result.status, RunStatus::input_changed) << result.reason;
  EXPECT_EQ(result.plane, "x");
  EXPECT_EQ(result.offset, 4 * 8);
}

TEST(WorkerWithWritableInputs, FindsAChangedInputByComparison) {
  WorkerOptions options = worker_options("assay_misbehaving.so");
  options.writable_inputs = true;
  Worker worker(options);
  for (const std::int64_t row_gap : {0, 12}) {
    TwiceCall call("change_input", 4, 6, row_gap);
    const RunResult result = worker.run(call.request());
    EXPECT_EQ(result.status, RunStatus::input_changed) << result.reason;
    EXPECT_EQ(result.offset / 4, 8);
    EXPECT_EQ(result.signal, 0);
    TwiceCall correct("correct", 4, 6, row_gap);
    EXPECT_EQ(worker.run(correct.request()).status, RunStatus::done);
  }
  EXPECT_EQ(worker.starts(), 1);
}

}  // namespace
}  // namespace assay
