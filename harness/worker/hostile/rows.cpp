#include "harness/worker/hostile/rows.hpp"

#include <iterator>

namespace assay {
namespace {

constexpr auto done = RunStatus::done;
constexpr auto unsupported = RunStatus::unsupported;
constexpr auto failed = RunStatus::failed;
constexpr auto crash = RunStatus::crash;
constexpr auto hang = RunStatus::hang;
constexpr auto overrun = RunStatus::overrun;
constexpr auto unwritten = RunStatus::unwritten;
constexpr auto leak = RunStatus::leak;
constexpr auto nondeterministic = RunStatus::nondeterministic;
constexpr auto input_changed = RunStatus::input_changed;
using enum Via;

constexpr Row kRows[] = {
#include "harness/worker/hostile/rows.inc"
};

constexpr bool valid() {
  for (const Row& row : kRows) {
    if (row.name.empty() || (row.other != RunStatus::done && row.why.empty())) return false;
    if (row.status == crash && row.reason.empty() && row.other != RunStatus::done) return false;
    for (const Row& earlier : kRows) {
      if (&earlier == &row) break;
      if (earlier.name == row.name && earlier.via == row.via) return false;
    }
  }
  return std::size(kRows) >= 150;
}
static_assert(valid());

}  // namespace

std::span<const Row> rows() { return kRows; }

}  // namespace assay
