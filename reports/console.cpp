// The report that a person watches.
#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>

#include "reports/matrix.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// The same finding on a thousand cases is shown this often in full; all of them are counted, and all stand in
// the JSON.
constexpr std::size_t kShownPerKind = 5;

class Console : public Reporter {
 public:
  explicit Console(bool quiet) : quiet_(quiet), terminal_(isatty(fileno(stdout)) != 0) {}

  void begin(const RunHeader& header) override {
    header_ = header;
    start_ = last_ = Clock::now();
    if (quiet_) return;
    fmt::print("{} cases, {} job{}{}\n", header.cases, header.jobs, header.jobs == 1 ? "" : "s",
               header.shards > 1 ? fmt::format(", shard {}/{}", header.shard, header.shards) : "");
    for (const auto& b : header.backends) fmt::print("  {}\n", b);
  }

  void result(const CaseResult& r) override {
    ++done_;
    matrix_.add(r);
    if (!r.verdict.green()) finding(r);
    if (r.verdict.expected && r.verdict.status != Status::unsupported) ++known_[r.verdict.reason];
    progress();
  }

  void end(const Summary& s) override {
    clear_bar();
    for (const auto& [kind, count] : shown_)
      if (count > kShownPerKind)
        fmt::print("... and {} more: {} {} backend={}\n", count - kShownPerKind, kind.status, kind.op,
                   kind.backend);
    if (!quiet_) fmt::print("\n{}", matrix_.text());
    for (const auto& [reason, count] : known_) fmt::print("known: {} ({} cases)\n", reason, count);
    for (const auto& where : s.stale) fmt::print("stale expectation, remove it: {}\n", where);
    std::string counts;
    for (const auto& [status, count] : s.counts) counts += fmt::format(", {} {}", count, to_string(status));
    const double busy = s.busy_seconds > 0 ? s.busy_seconds : 1;
    const auto share = [&](double seconds) { return 100 * seconds / busy; };
    fmt::print(
        "\n{} cases{}; {} outputs judged in {:.1f} s\n"
        "work: kernels {:.1f} %, reference {:.1f} %, inputs {:.1f} %, worker {:.1f} %, rest {:.1f} %\n",
        s.cases, counts, s.outputs, s.wall_seconds, share(s.kernel_seconds), share(s.reference_seconds),
        share(s.input_seconds), share(s.worker_seconds),
        share(busy - s.kernel_seconds - s.reference_seconds - s.input_seconds - s.worker_seconds));
    fmt::print("{}\n", s.green()
                           ? (s.expected ? fmt::format("all green; {} as expected.list explains", s.expected)
                                         : "all green")
                       : s.cases == 0 ? "nothing was executed"
                                      : "not green");
  }

 private:
  struct Kind {
    std::string status, op, backend;
    auto operator<=>(const Kind&) const = default;
  };

  void finding(const CaseResult& r) {
    const std::size_t count =
        ++shown_[{std::string(to_string(r.verdict.status)), std::string(r.c.op->name), r.c.backend}];
    if (count > kShownPerKind) return;
    clear_bar();
    fmt::print("{} {}\n", r.verdict.status == Status::wrong ? "FAIL" : to_string(r.verdict.status),
               r.c.line());
    if (!r.verdict.summary.empty()) fmt::print("  what   {}\n", r.verdict.summary);
    if (!r.verdict.detail.empty()) fmt::print("{}\n", r.verdict.detail);
    if (!r.contract.empty()) fmt::print("  under  {}\n", r.contract);
    fmt::print("  repro  assay run '{}'\n", r.c.line());
  }

  void progress() {
    if (quiet_) return;
    const auto now = Clock::now();
    const auto wait = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
    if (now - last_ < wait) return;
    last_ = now;
    const double share =
        static_cast<double>(done_) / static_cast<double>(std::max<std::size_t>(1, header_.cases));
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    if (terminal_) {
      const int width = static_cast<int>(40 * share);
      fmt::print("\r[{}{}] {}/{} {:.0f} s left ", std::string(width, '#'), std::string(40 - width, ' '),
                 done_, header_.cases, elapsed / share - elapsed);
      bar_ = true;
    } else {
      fmt::print("{}/{} cases after {:.0f} s\n", done_, header_.cases, elapsed);
    }
    std::fflush(stdout);
  }

  void clear_bar() {
    if (bar_) fmt::print("\r{}\r", std::string(79, ' '));
    bar_ = false;
  }

  bool quiet_, terminal_, bar_ = false;
  RunHeader header_;
  Matrix matrix_;
  std::map<Kind, std::size_t> shown_;
  std::map<std::string, std::size_t> known_;  // by explanation
  std::size_t done_ = 0;
  Clock::time_point start_, last_;
};

}  // namespace

std::unique_ptr<Reporter> console_reporter(bool quiet) { return std::make_unique<Console>(quiet); }

}  // namespace assay
