// What a kernel does to memory that is not its own, and to its outputs: each misdeed has its own verdict.
#include "harness/worker/findings.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

class Findings : public WorkerFixture {};

TEST_F(Findings, one_element_past_the_end_is_an_overrun) {
  const RunResult result = run_variant("write_past_end");
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(result.signal, SIGSEGV);  // in the guard, at once
}

TEST_F(Findings, one_element_in_front_of_the_start_is_an_overrun) {
  const RunResult result = run_variant("write_before_start");
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.offset, -4);
}

TEST_F(Findings, a_write_into_the_gap_between_rows_is_an_overrun) {
  const RunResult result = run_variant("write_into_gap", 16);
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.offset, 6 * 4);
}

TEST_F(Findings, rows_gigabytes_apart_are_seen_like_others) {
  const std::int64_t gap = std::int64_t{3} << 30;
  EXPECT_EQ(run_variant("correct", gap).status, RunStatus::done);
  const RunResult near = run_variant("write_into_gap", gap);
  EXPECT_EQ(near.status, RunStatus::overrun) << near.reason;
  EXPECT_EQ(near.offset, 6 * 4);
  EXPECT_EQ(run_variant("read_gap", gap).status, RunStatus::leak);
  EXPECT_EQ(run_variant("skip_row", gap).unit, 18);
}

TEST_F(Findings, an_address_that_wraps_into_the_hole_between_rows_is_named) {
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

TEST_F(Findings, an_overrun_into_alignment_slack_is_found_in_the_poison) {
  TwiceCall call("write_past_end");
  call.request().alignment = 64;  // 96 bytes of elements, 32 of slack
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::overrun) << result.reason;
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(result.signal, 0);
}

TEST_F(Findings, a_row_that_is_not_written_is_unwritten) {
  const RunResult result = run_variant("skip_row");
  EXPECT_EQ(result.status, RunStatus::unwritten) << result.reason;
  EXPECT_EQ(result.plane, "y");
  EXPECT_EQ(result.unit, 18);
  EXPECT_EQ(result.count, 6);
  EXPECT_EQ(run_variant("skip_everything", 16).count, 24);
}

TEST_F(Findings, a_value_that_equals_the_poison_is_not_taken_for_unwritten) {
  EXPECT_EQ(run_variant("write_poison_values").status, RunStatus::done);
}

TEST_F(Findings, unwritten_is_found_in_a_nondeterministic_backend_too) {
  TwiceCall call("skip_row");
  call.request().deterministic = false;
  EXPECT_EQ(run_then_correct(call).status, RunStatus::unwritten);
}

TEST_F(Findings, one_row_read_past_the_end_is_a_leak) {
  const RunResult result = run_variant("read_row_past_end");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.plane, "x");
  EXPECT_EQ(result.offset, 4 * 6 * 4);
  EXPECT_EQ(run_variant("read_row_past_end", 6000).status, RunStatus::leak) << "a gap of more than a page";
}

TEST_F(Findings, what_a_larger_call_could_touch_is_a_guard_again) {
  TwiceCall large("correct", 64, 256);
  EXPECT_EQ(run(large).status, RunStatus::done);
  const RunResult result = run_variant("read_row_past_end");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.signal, SIGSEGV);
}

TEST_F(Findings, a_read_in_front_of_the_start_is_a_leak) {
  const RunResult result = run_variant("read_before_start");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.offset, -4);
}

TEST_F(Findings, other_bits_on_the_second_call_are_nondeterministic) {
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

TEST_F(Findings, other_bits_in_one_run_only_are_not_blamed_on_the_address) {
  const RunResult result = run_variant("other_bits_once");
  EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
  EXPECT_FALSE(result.depends_on_address);
}

TEST_F(Findings, other_bits_are_allowed_when_declared) {
  TwiceCall call("other_bits");
  call.request().deterministic = false;
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::done);
  ASSERT_EQ(result.second.size(), 1U);
  EXPECT_NE(result.outputs, result.second);
}

TEST_F(Findings, bits_that_depend_on_the_address_are_nondeterministic_and_said_to_be_so) {
  const RunResult result = run_variant("bits_by_address");
  EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
  EXPECT_TRUE(result.depends_on_address);
  TwiceCall fixed("bits_by_address");
  fixed.request().vary_placement = false;
  EXPECT_EQ(run(fixed).status, RunStatus::done);
}

TEST_F(Findings, a_result_that_depends_on_a_gap_is_a_leak) {
  EXPECT_EQ(run_variant("read_gap", 16).status, RunStatus::leak);
  EXPECT_EQ(run_variant("copy_poison", 16).status, RunStatus::leak) << "written, with poison: not unwritten";
  const std::string reason = run_variant("read_gap", 16).reason;
  EXPECT_NE(reason.find("; those bytes stand beside the elements of x"), std::string::npos) << reason;
}

TEST_F(Findings, a_result_that_depends_on_an_unused_range_is_a_leak) {
  for (const char* variant : {"read_last_row", "zero_last_row"}) {
    TwiceCall call(variant);
    call.x().unused = {{18 * 4, 6 * 4}};
    call.x().poison[0] = {std::byte{0}, std::byte{0}, std::byte{0x80},
                          std::byte{0xFF}};  // -Inf against 5A5A5A5A
    const RunResult result = run_then_correct(call);
    EXPECT_EQ(result.status, variant == std::string("zero_last_row") ? RunStatus::done : RunStatus::leak);
  }
}

TEST_F(Findings, a_write_to_an_unused_range_of_the_output_is_an_overrun) {
  TwiceCall skips("skip_row");
  skips.y().unused = {{18 * 4, 6 * 4}};
  EXPECT_EQ(run_then_correct(skips).status, RunStatus::done);
  TwiceCall writes("correct");
  writes.y().unused = {{18 * 4, 6 * 4}};
  const RunResult result = run_then_correct(writes);
  EXPECT_EQ(result.status, RunStatus::overrun);
  EXPECT_EQ(result.offset, 18 * 4);
}

TEST_F(Findings, a_write_to_an_input_is_found) {
  const RunResult result = run_variant("change_input");
  EXPECT_EQ(result.status, RunStatus::input_changed) << result.reason;
  EXPECT_EQ(result.plane, "x");
  EXPECT_EQ(result.offset, 4 * 8);
}

TEST(WorkerWithWritableInputs, finds_a_changed_input_by_comparison) {
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
  EXPECT_EQ(worker.starts(), 3);  // a process that was found out serves no other case
}

}  // namespace
}  // namespace assay
