// What a kernel declares of its sums against what its bits are: a schedule found is held against a contract,
// and under level=replay the contract has the schedule, and the bits are held against that.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "reference/arithmetic/contract.hpp"
#include "reference/error.hpp"
#include "reference/replay/schedule.hpp"

namespace assay {

// "" where a kernel of this schedule keeps the contract of its sums (keys acc, order, promote) for n terms;
// else one line that names the key: the kernel that ran is not the one declared, which is a `fallback`.
std::string contradiction(const Contract& contract, const Schedule& schedule, std::int64_t n);

// Keys of a contract that may declare a schedule whole: schedule=acc:f32/lanes:16, level=replay. Of outputs
// whose inputs are finite numbers the truth is then what the schedule stores, with limit 0 (+0 and -0 are one
// number); the others keep the limit that the rest of the contract gives.
inline constexpr KeySpec kScheduleKey{
    "schedule",
    KeyKind::text,
    "none",
    "",
    "all that decides the bits, key:value/key:value, as `assay identify` prints it",
    {},
    "level=replay"};
inline constexpr std::array kReplayKeys = {
    KeySpec{"level", KeyKind::word, "limit", "limit|replay",
            "replay: every stored bit must be that of `schedule`", "none", "replay: schedule!=none"},
    kScheduleKey,
};

// keys, then those two.
template <std::size_t N>
constexpr auto with_replay_keys(const std::array<KeySpec, N>& own) {
  return joined(own, kReplayKeys);
}

inline bool is_judged_by_replay(const Contract& contract) { return contract.text("level") == "replay"; }
// f(the schedule's text). An InputError of f becomes one of kind bad_contract that names the schedule.
template <typename F>
auto under_schedule(const Contract& contract, const F& f) {
  try {
    return f(from_contract_value(contract.text("schedule")));
  } catch (const InputError& e) {
    if (e.kind() == InputErrorKind::bad_contract) throw;
    throw InputError(InputErrorKind::bad_contract,
                     "schedule=" + std::string(contract.text("schedule")) + ": " + e.what());
  }
}
[[noreturn]] void refuse_contract(const std::string& why);
// Throws InputError bad_contract unless the store is the one that schedules know: out=dtype, to nearest even,
// ieee, ftz=no.
void require_plain_store(const Contract& contract);

// "terms 64..95 are added: block 3 of 16, chunk 1 of 4, slice 2 of 2": the step of n terms' sum that takes in
// [begin, end).
std::string name_of_step(const Schedule& schedule, std::int64_t n, std::int64_t begin, std::int64_t end);

}  // namespace assay
