// Kernels that answer without computing, or compute from what they should not know; and status values out of
// range.
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

// The element in the first row that a misdeed changes.
volatile float& spot(const Call& c) { return c.y.at(0, 1); }

void remembered(Call& c, std::int64_t key) {
  static std::map<std::int64_t, std::vector<float>> known;
  auto& values = known[key];
  if (values.empty()) {
    for (std::int64_t r = 0; r < c.y.rows; ++r)
      for (std::int64_t k = 0; k < c.y.cols; ++k) values.push_back(2 * c.x.at(r, k));
  }
  for (std::int64_t r = 0; r < c.y.rows; ++r)
    for (std::int64_t k = 0; k < c.y.cols; ++k)
      c.y.at(r, k) = values[static_cast<std::size_t>(r * c.y.cols + k)];
}

__attribute__((noinline)) float from_the_stack() {
  unsigned char frame[65536];
  asm volatile("" : "=m"(frame));  // so the compiler takes for written what nobody wrote
  float sum = 0;
  for (int i = 8192; i < 16384; ++i)  // below what the calls before this one used
    sum += static_cast<float>(frame[i]);
  return sum;
}

template <int Status>
void answer(Call& c) {
  c.twice();
  const int status = Status;
  std::memcpy(&c.status, &status, sizeof status);  // no value of the enumeration
}

constexpr Variant kVariants[] = {
    {"remember_outputs_by_shape", [](Call& c) { remembered(c, c.y.rows * 1'000'000 + c.y.cols); }},
    {"remember_outputs_by_columns", [](Call& c) { remembered(c, c.y.cols * c.y.rows / c.y.rows); }},
    {"remember_the_first_call",
     [](Call& c) {
       static std::vector<float> first;
       if (first.empty())
         for (std::int64_t k = 0; k < c.y.cols; ++k) first.push_back(2 * c.x.at(0, k));
       c.twice();
       for (std::int64_t k = 0; k < c.y.cols; ++k)
         c.y.at(0, k) = first[static_cast<std::size_t>(k) % first.size()];
     }},
    {"fail_the_second_time",
     [](Call& c) {
       static int calls = 0;
       c.twice();
       if (++calls % 2 == 0) {
         std::strcpy(c.reason, "the second time");
         c.status = ASSAY_FAILED;
       }
     }},
    {"another_answer_the_second_time",
     [](Call& c) {
       static int calls = 0;
       c.twice();
       if (++calls % 2 == 0) spot(c) = 3;
     }},
    {"answer_by_call_count",
     [](Call& c) {
       static int calls = 0;
       c.twice();
       spot(c) = static_cast<float>(++calls);
     }},
    {"answer_by_clock",
     [](Call& c) {
       timespec now{};
       clock_gettime(CLOCK_MONOTONIC, &now);
       c.twice();
       spot(c) = static_cast<float>(now.tv_nsec % 65536);
     }},
    {"answer_by_random_bytes",
     [](Call& c) {
       std::uint16_t bytes = 0;
       static_cast<void>(!getrandom(&bytes, sizeof bytes, 0));
       c.twice();
       spot(c) = bytes;
     }},
    {"answer_by_address",
     [](Call& c) {
       c.twice();
       spot(c) = static_cast<float>(reinterpret_cast<std::uintptr_t>(c.x.data) % 4096);
     }},
    {"answer_by_the_stack",
     [](Call& c) {
       c.twice();
       spot(c) = from_the_stack();
     }},
    {"not_a_number_everywhere",
     [](Call& c) {
       for (std::int64_t r = 0; r < c.y.rows; ++r)
         std::memset(c.y.data + r * c.y.row_stride, 0xFF, static_cast<std::size_t>(c.y.cols) * 4);
     }},
    {"zeros_everywhere",
     [](Call& c) {
       for (std::int64_t r = 0; r < c.y.rows; ++r)
         std::memset(c.y.data + r * c.y.row_stride, 0, static_cast<std::size_t>(c.y.cols) * 4);
     }},
    {"status_3", answer<3>},
    {"status_minus_1", answer<-1>},
    {"status_of_the_largest_integer", answer<0x7FFFFFFF>},
    {"unsupported_without_a_reason", [](Call& c) { c.status = ASSAY_UNSUPPORTED; }},
    {"unsupported_after_it_was_declared",
     [](Call& c) {
       std::strcpy(c.reason, "not this one after all");
       c.status = ASSAY_UNSUPPORTED;
     }},
    {"failed_without_a_reason", [](Call& c) { c.status = ASSAY_FAILED; }},
    {"failed_with_a_reason_without_end",
     [](Call& c) {
       std::memset(c.reason, 'r', 256);
       c.status = ASSAY_FAILED;
     }},
    {"failed_with_lines_and_escapes",
     [](Call& c) {
       std::strcpy(c.reason, "one\ntwo\x1b[2J\xff\r");
       c.status = ASSAY_FAILED;
     }},
    {"empty_the_message",
     [](Call& c) {
       c.twice();
       auto* message = const_cast<assay_call*>(c.message);
       std::memset(message, 0, sizeof *message);
     }},
    {"empty_the_trace",
     [](Call& c) {
       c.twice();
       std::memset(const_cast<assay_trace*>(c.trace), 0, sizeof *c.trace);
     }},
    {"correct_from_a_workspace_that_is_kept",
     [](Call& c) {
       static std::vector<float> workspace;
       workspace.assign(static_cast<std::size_t>(c.y.cols), 0.0F);
       c.twice();
     }},
    {"correct_by_two_threads",
     [](Call& c) {
       Call upper = c, lower = c;
       upper.y.rows = c.y.rows / 2;
       std::thread other([&] { upper.twice(); });
       for (std::int64_t r = c.y.rows / 2; r < c.y.rows; ++r)
         for (std::int64_t k = 0; k < c.y.cols; ++k) lower.y.at(r, k) = 2 * lower.x.at(r, k);
       other.join();
     }},
};

}  // namespace

std::span<const Variant> state() { return kVariants; }

}  // namespace hostile
