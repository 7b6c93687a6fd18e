#include "harness/cli/misdeeds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <string_view>

#include "harness/backends.hpp"
#include "harness/worker/misbehaving/twice_call.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRows = 4, kColumns = 6, kRowBytes = kColumns * 4;
constexpr std::int64_t kGap = 16;  // bytes between rows
constexpr std::string_view kCounterpart = "correct";
// Long enough for any of the correct kernels; what never ends need not be waited for so long.
constexpr std::chrono::milliseconds kPatience{10'000}, kLoop{150};

struct Misdeed {
  std::string_view variant;
  RunStatus status;  // done: no misdeed, though it looks like one
  std::int64_t gap = 0;
  bool unused_row = false;  // the last row of x is declared to be unused
  std::string_view counterpart = kCounterpart;
};

constexpr auto kMisdeeds = std::to_array<Misdeed>({
    {"correct", RunStatus::done},
    {"write_null", RunStatus::crash},
    {"overflow_stack", RunStatus::crash},
    {"crash_in_thread", RunStatus::crash},
    {"abort_run", RunStatus::crash},
    {"leave", RunStatus::crash},
    {"close_descriptors", RunStatus::crash},
    {"leave_child_behind", RunStatus::crash},
    {"loop_for_ever", RunStatus::hang},
    {"chatter_for_ever", RunStatus::hang},
    {"throw_standard", RunStatus::failed},
    {"throw_number", RunStatus::failed},
    {"write_past_end", RunStatus::overrun},
    {"write_before_start", RunStatus::overrun},
    {"write_into_gap", RunStatus::overrun, kGap},
    {"skip_row", RunStatus::unwritten},
    {"skip_everything", RunStatus::unwritten},
    {"write_poison_values", RunStatus::done},
    {"read_row_past_end", RunStatus::leak},
    {"read_before_start", RunStatus::leak},
    {"read_gap", RunStatus::leak, kGap},
    {"copy_poison", RunStatus::leak, kGap},
    {"read_last_row", RunStatus::leak, 0, true, "zero_last_row"},
    {"zero_last_row", RunStatus::done, 0, true, "zero_last_row"},
    {"other_bits", RunStatus::nondeterministic},
    {"other_bits_every_second_time", RunStatus::nondeterministic},
    {"other_bits_once", RunStatus::nondeterministic},
    {"bits_by_address", RunStatus::nondeterministic},
    {"change_input", RunStatus::input_changed},
    {"print_much", RunStatus::done},
});

RunResult run(Worker& worker, const Misdeed& m, std::string_view variant, RunStatus expected) {
  TwiceCall call(std::string(variant), kRows, kColumns, m.gap);
  call.request().timeout = expected == RunStatus::hang ? kLoop : kPatience;
  if (m.unused_row) {
    call.x().unused = {{(kRows - 1) * kRowBytes, kRowBytes}};
    // -infinity against 5A5A5A5A: `read_last_row` shows the sign of what it reads.
    call.x().poison[0] = {std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0xFF}};
  }
  return worker.run(call.request());
}

Judgement judge(Worker& worker, const Misdeed& m) {
  const RunResult result = run(worker, m, m.variant, m.status);
  if (result.status != m.status)
    return {false, fmt::format("{}: {} instead of {}: {}", m.variant, to_string(result.status),
                               to_string(m.status), result.reason)};
  const RunResult counterpart = run(worker, m, m.counterpart, RunStatus::done);
  if (counterpart.status != RunStatus::done)
    return {false, fmt::format("{}: its counterpart {}: {}: {}", m.variant, m.counterpart,
                               to_string(counterpart.status), counterpart.reason)};
  const std::string found = m.status == RunStatus::done
                                ? "no misdeed, and none seen"
                                : fmt::format("{}: {}", to_string(result.status), result.reason);
  return {true, fmt::format("{}: {}", m.variant, found)};
}

// What the plug-in has and the list above lacks, and the reverse.
std::vector<Judgement> strangers(const std::vector<std::string>& variants) {
  std::set<std::string, std::less<>> unknown(variants.begin(), variants.end());
  std::vector<Judgement> found;
  for (const auto& m : kMisdeeds)
    if (unknown.erase(std::string(m.variant)) == 0)
      found.push_back({false, fmt::format("{}: the plug-in has no such variant", m.variant)});
  for (const auto& name : unknown)
    found.push_back({false, fmt::format("{}: nobody knows what must be noticed", name)});
  return found;
}

}  // namespace

std::string misbehaving_plugin() {
  const fs::path here = program_directory();
  const fs::path built = here / "selftest" / "assay_misbehaving.so";
  if (fs::exists(built)) return built.string();
  return (here.parent_path() / "lib" / "assay" / "selftest" / "assay_misbehaving.so").string();
}

std::vector<Judgement> judge_misdeeds() {
  WorkerOptions options;
  options.plugin = misbehaving_plugin();
  if (!fs::exists(options.plugin))
    return {
        {false,
         fmt::format("the misbehaving plug-in is missing: no file '{}'; without it no misdeed of a kernel is "
                     "shown to be noticed",
                     options.plugin)}};
  Worker worker(options);
  const auto opened = worker.open();
  if (const auto* refused = std::get_if<reply::Refused>(&opened))
    return {{false, fmt::format("the misbehaving plug-in cannot be opened: {}", refused->reason)}};
  std::vector<Judgement> all = strangers(std::get<reply::Opened>(opened).variants);
  for (const auto& m : kMisdeeds) all.push_back(judge(worker, m));
  return all;
}

}  // namespace assay
