// The report that a person watches.
#include <fmt/color.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "harness/budget.hpp"
#include "harness/worker/printable.hpp"
#include "reports/digest.hpp"
#include "reports/matrix.hpp"
#include "reports/reporter.hpp"
#include "reports/time_left.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// The same finding on a thousand cases is shown this often in full; all of them are counted, and all stand in
// the JSON.
constexpr std::size_t kShownPerKind = 5;

class Console : public Reporter {
 public:
  explicit Console(ConsoleDetail detail)
      : quiet_(detail.quiet), verbose_(detail.verbose), terminal_(isatty(fileno(stdout)) != 0) {
    const char* no_color = std::getenv("NO_COLOR");  // no-color.org: set, and not empty
    const char* term = std::getenv("TERM");
    coloured_ = terminal_ && (no_color == nullptr || *no_color == '\0') &&
                !(term != nullptr && std::string_view(term) == "dumb");
  }

  void begin(const RunHeader& header) override {
    header_ = header;
    start_ = last_ = Clock::now();
    for (const auto& [op, weight] : header.weights) time_left_.expect(op, weight);
    if (quiet_) return;
    fmt::print("{} case{}, {} job{}{}\n", header.cases, header.cases == 1 ? "" : "s", header.jobs,
               header.jobs == 1 ? "" : "s",
               header.shards > 1 ? fmt::format(", shard {}/{}", header.shard, header.shards) : "");
    for (const auto& [name, description] : header.backends) fmt::print("  {}: {}\n", name, description);
  }

  void found(const CaseResult& r) override {
    ++done_;
    if (!quiet_) time_left_.done(std::string(r.c.op->name), weight_of(r.c), r.total_seconds);
    if (!r.verdict.green()) finding(r);
    if (r.verdict.expected) known(r);
    if (r.verdict.status == Status::pass && verbose_) passed(r);
    progress();
  }

  void result(const CaseResult& r) override {
    matrix_.add(r);
    digest_.add(r);
    if (r.verdict.green()) return;
    const auto [at, first] = kinds_.try_emplace(kind_of(r), 0, repro_command(r));
    ++at->second.first;
  }

  void end(const Summary& s) override {
    clear_bar();
    if (!quiet_) fmt::print("\n{}", (verbose_ ? matrix_ : matrix_.folded()).text());
    for (const DigestLine& line : digest_.lines()) fmt::print("\n{}\n", line.text());
    for (const auto& [name, count] : header_.elsewhere)
      fmt::print("\n{} case{} not run: {} backend={}, which --backend does not name\n", with_commas(count),
                 count == 1 ? "" : "s", count == 1 ? "it requires" : "they require", name);
    for (const auto& what : s.disturbed) fmt::print("\ndisturbed by an earlier call: {}\n", what);
    for (const auto& where : s.stale) fmt::print("stale expectation, remove it: {}\n", where);
    fmt::print("\n");
    if (verbose_) work(s);
    if (s.expected > 0)
      fmt::print("known findings and gaps, and why: assay list known{}\n",
                 verbose_ ? "; reports/findings.md" : "; case by case: -v");
    if (s.suspect > 0)
      fmt::print("{} of them {} suspect: within the proof, and beyond what is likely{}\n",
                 with_commas(s.suspect), s.suspect == 1 ? "is" : "are",
                 verbose_ ? "" : "; case by case: -v; red with --strict");
    if (s.blind > 0)
      fmt::print("{} of them {} blind: an error of 10 % would go unseen in half of the elements{}\n",
                 with_commas(s.blind), s.blind == 1 ? "is" : "are",
                 verbose_ ? "" : "; case by case: -v; red with --strict");
    if (s.unwitnessed > 0)
      fmt::print("{} of them {} unwitnessed: the backend's word alone stands for the declared kernel{}\n",
                 with_commas(s.unwitnessed), s.unwitnessed == 1 ? "is" : "are",
                 verbose_ ? "" : "; red with --strict");
    if (s.left_out > 0)
      fmt::print(
          "{} case{} left out of the suite that was made: inputs that show nothing under the contract\n",
          with_commas(s.left_out), s.left_out == 1 ? " was" : "s were");
    if (!quiet_ && !s.smallest.empty()) {
      fmt::print(
          "the smallest defects that these cases would have shown: an output off by a factor and lost terms, "
          "by the "
          "limits of what was\njudged; study: lost terms, and bits of a sum, of plain kernels under usual "
          "contracts "
          "(assay planted), where its fills were judged{}:\n",
          verbose_ ? "" : "; format by format: -v");
      for (const std::string& line : s.smallest) fmt::print("  {}\n", line);
    }
    for (const std::string& of : s.unshown()) fmt::print("nothing was judged of {}\n", of);
    if (s.left > 0)
      fmt::print("{} of {} cases were left when the budget was spent, or with -x a finding was there\n",
                 with_commas(s.left), with_commas(header_.cases));
    if (s.laws_left > 0)
      fmt::print("{} promised law{} not checked: a share of the budget was spent, or the run was stopped\n",
                 with_commas(s.laws_left), s.laws_left == 1 ? " was" : "s were");
    if (!s.ended_by.empty())
      fmt::print("ended by {}: {} of {} cases were judged\n", s.ended_by, with_commas(s.cases),
                 with_commas(header_.cases));
    list_findings();
    const auto color = s.green()                           ? fmt::terminal_color::green
                       : s.headline() == kNothingWasJudged ? fmt::terminal_color::yellow
                                                           : fmt::terminal_color::red;
    fmt::print("{}; {}; {}{} outputs judged in {:.1f} s\n", painted(s.headline(), color), counts(s),
               s.shows_nothing + s.not_run == 0 ? "" : s.coverage() + "; ", with_commas(s.outputs),
               s.wall_seconds);
  }

 private:
  // "12 cases: 8 pass, 1 known, 3 gaps": what the list of expectations explains is counted apart from what
  // it does not.
  static std::string counts(const Summary& s) {
    const auto unsupported = s.explained.find(Status::unsupported);
    const std::size_t gaps = unsupported == s.explained.end() ? 0 : unsupported->second;
    const auto nothing = s.explained.find(Status::distrust);  // told by coverage()
    const std::size_t known = s.expected - gaps - (nothing == s.explained.end() ? 0 : nothing->second);
    std::string text = fmt::format("{} case{}: ", with_commas(s.cases), s.cases == 1 ? "" : "s");
    std::vector<std::string> parts;
    for (const auto& [status, count] : s.counts) {
      const auto explained = s.explained.find(status);
      const std::size_t left = count - (explained == s.explained.end() ? 0 : explained->second);
      if (left > 0) parts.push_back(fmt::format("{} {}", with_commas(left), to_string(status)));
    }
    if (known > 0) parts.push_back(fmt::format("{} known", with_commas(known)));
    if (gaps > 0) parts.push_back(fmt::format("{} gap{}", with_commas(gaps), gaps == 1 ? "" : "s"));
    return text + fmt::format("{}", fmt::join(parts, ", "));
  }

  static void work(const Summary& s) {
    const double busy = s.busy_seconds > 0 ? s.busy_seconds : 1;
    const auto share = [&](double seconds) { return 100 * seconds / busy; };
    fmt::print(
        "work: kernels {:.1f} %, reference {:.1f} %, inputs {:.1f} %, worker {:.1f} %, rest {:.1f} %\n",
        share(s.kernel_seconds), share(s.reference_seconds), share(s.input_seconds), share(s.worker_seconds),
        share(busy - s.kernel_seconds - s.reference_seconds - s.input_seconds - s.worker_seconds));
  }

  // Gaps are counted only; any other known finding is a line of -v.
  void known(const CaseResult& r) {
    if (!verbose_ || r.verdict.status == Status::unsupported) return;
    clear_bar();
    fmt::print("known {} {}\n  why    {}\n", to_string(r.verdict.status), r.c.line(), r.verdict.reason);
  }

  // What a pass is worth, of those that are worth little.
  void passed(const CaseResult& r) {
    const Sharpness& seen = r.verdict.seen;
    if (r.verdict.suspect()) {
      clear_bar();
      fmt::print("suspect {}\n{}\n  repro  {}\n", r.c.line(), r.verdict.detail, repro_command(r));
    }
    if (!r.verdict.blind()) return;
    clear_bar();
    fmt::print("blind {}\n  sees   {} in half of the elements, {} in the sharpest\n", r.c.line(),
               percent(seen.half), percent(seen.some));
  }

  struct Kind {
    std::string status, op, backend, variant;  // another variant is another kernel, and none hides behind one
    auto operator<=>(const Kind&) const = default;
  };

  static Kind kind_of(const CaseResult& r) {
    return {std::string(to_string(r.verdict.status)), std::string(r.c.op->name), r.c.backend, r.c.variant};
  }

  // What a screen of progress and matrix has pushed away: once more, a line a kind. With -q nothing has,
  // unless a kind has more findings than were shown.
  void list_findings() const {
    const auto hidden = [](const auto& kind) { return kind.second.first > kShownPerKind; };
    if (kinds_.empty() || (quiet_ && std::ranges::none_of(kinds_, hidden))) return;
    fmt::print("findings, how many of a kind and the first:\n");
    for (const auto& [kind, found] : kinds_)
      fmt::print("  {:>5} {:<16} {}\n", with_commas(found.first), kind.status, found.second);
  }

  void finding(const CaseResult& r) {
    if (++shown_[kind_of(r)] > kShownPerKind) return;
    clear_bar();
    fmt::print("{} {} {}\n", painted("FAIL", fmt::terminal_color::red), to_string(r.verdict.status),
               r.c.line());
    if (!r.verdict.summary.empty()) fmt::print("  what   {}\n", printable(r.verdict.summary));
    if (!r.verdict.detail.empty()) fmt::print("{}\n", r.verdict.detail);
    if (!r.contract.empty()) fmt::print("  under  {}\n", r.contract);
    fmt::print("  repro  {}\n", repro_command(r));
    std::fflush(stdout);  // whoever reads a pipe sees a finding when it is made
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
    const double left = time_left_.seconds(header_.jobs);
    if (terminal_) {
      const int width = static_cast<int>(40 * share);
      fmt::print("\r[{}{}] {}/{} {:.0f} s left ", std::string(width, '#'), std::string(40 - width, ' '),
                 done_, header_.cases, left);
      bar_ = true;
    } else {
      fmt::print("{}/{} cases after {:.0f} s, {:.0f} s left\n", done_, header_.cases, elapsed, left);
    }
    std::fflush(stdout);
  }

  void clear_bar() {
    if (bar_) fmt::print("\r{}\r", std::string(79, ' '));
    bar_ = false;
  }

  // For a terminal alone: what is piped or kept in a file is text.
  std::string painted(std::string_view text, fmt::terminal_color color) const {
    if (!coloured_) return std::string(text);
    return fmt::format(fmt::emphasis::bold | fmt::fg(color), "{}", text);
  }

  bool quiet_, verbose_, terminal_, coloured_ = false, bar_ = false;
  RunHeader header_;
  Matrix matrix_;
  Digest digest_;
  TimeLeft time_left_;
  std::map<Kind, std::size_t> shown_;
  std::map<Kind, std::pair<std::size_t, std::string>> kinds_;  // how many, and how the first is repeated
  std::size_t done_ = 0;
  Clock::time_point start_, last_;
};

}  // namespace

std::unique_ptr<Reporter> console_reporter(ConsoleDetail detail) { return std::make_unique<Console>(detail); }

}  // namespace assay
