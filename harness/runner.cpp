#include "harness/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "harness/budget.hpp"
#include "harness/history.hpp"
#include "harness/worker/bounded.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// How long the history of one finding is looked for.
constexpr std::chrono::seconds kHistoryLimit{30};
// Of Python with PyTorch seconds, of a plug-in of ours hundredths.
constexpr double kLongOpening = 0.5;
// The share of what is available that a run takes: the rest is for the workers' own code and the reference's
// temporaries.
constexpr double kMemoryShare = 0.8;

CaseResult not_run(const Case& c, Status status, std::string summary) {
  CaseResult r;
  r.c = c;
  r.verdict.status = status;
  r.verdict.summary = std::move(summary);
  return r;
}

// A verdict that a kernel's earlier calls can bring about.
bool may_depend_on_history(Status s) {
  return s != Status::pass && s != Status::unsupported && s != Status::distrust && s != Status::blind &&
         s != Status::suspect && s != Status::too_big && s != Status::impossible;
}

// Of a thousand findings of one kind the first few are made again: a new process may take seconds to open its
// device. What was not there again says nothing of the next one of its kind.
class Repeats {
 public:
  enum class Effort : std::uint8_t { none, alone, with_history };
  Effort wanted(const CaseResult& r) {
    const std::lock_guard lock(mutex_);
    const Tries& tries = tries_[key(r)];
    if (tries.repeated >= kRepeatedPerKind) return Effort::none;
    return tries.never >= kRepeatedPerKind ? Effort::alone : Effort::with_history;
  }
  void tell(const CaseResult& found, Repeat repeat) {
    const std::lock_guard lock(mutex_);
    Tries& tries = tries_[key(found)];
    ++(repeat == Repeat::never ? tries.never : tries.repeated);
  }

 private:
  struct Tries {
    std::size_t repeated = 0, never = 0;
  };
  using Key = std::tuple<Status, const Op*, std::string, std::string>;
  static Key key(const CaseResult& r) { return {r.verdict.status, r.c.op, r.c.backend, r.c.variant}; }
  static constexpr std::size_t kRepeatedPerKind = 5;
  std::mutex mutex_;
  std::map<Key, Tries> tries_;
};

// What all threads share.
struct Shared {
  const Plan& plan;
  const RunSettings& settings;
  MemoryBudget memory;
  Repeats repeats = {};
};

// What goes on in one thread.
class Job {
 public:
  Job(Shared& shared, const std::vector<BackendInfo>& known, Workers* opened)
      : plan_(shared.plan),
        settings_(shared.settings),
        memory_(shared.memory),
        repeats_(shared.repeats),
        own_(known, shared.settings.workers),
        workers_(opened != nullptr ? *opened : own_) {}

  // Calls deliver(i, result) for the group's cases, unless `has(i)`; throws Stopped.
  template <typename Has, typename Deliver>
  void run(const Group& group, const Has& has, const Deliver& deliver) {
    std::size_t next = 0;
    const auto rest = [&](Status status, const std::string& summary) {
      for (; next < group.cases.size(); ++next)
        if (!has(next)) deliver(next, not_run(group.cases[next], status, summary));
    };
    const double bytes = bytes_needed(group.cases.front());
    const auto needs = [&] {
      return fmt::format("it needs {} of memory, and there are {}", byte_text(bytes),
                         byte_text(memory_.bytes()));
    };
    if (!memory_.holds(bytes)) return rest(Status::too_big, needs());
    const MemoryShare share = memory_.take(bytes);
    try {
      const auto start = Clock::now();
      const Inputs inputs = make_inputs(group.cases.front(), plan_.lists);
      const double made = seconds_since(start);
      TruthCache truths;
      bool first = true;
      for (; next < group.cases.size(); ++next) {
        if (has(next)) continue;
        if (settings_.stopped()) throw Stopped{};
        CaseResult r = judge(group.cases[next], {inputs, truths, workers_, settings_.judge});
        if (first) {
          r.input_seconds = inputs.fill_seconds;
          r.reference_seconds += inputs.encode_seconds;
          r.total_seconds += made;
        }
        first = false;
        deliver(next, std::move(r));
      }
    } catch (const std::bad_alloc&) {
      rest(Status::too_big, needs() + "; an allocation failed");
    } catch (const std::length_error&) {
      rest(Status::too_big, needs() + "; no container can be so long");
    } catch (const InputError& e) {
      rest(Status::impossible, e.what());
    } catch (const std::exception& e) {
      rest(Status::failed, fmt::format("assay itself failed: {}", e.what()));
    }
  }

 private:
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  CaseResult judge(const Case& c, const Judge& judge) {
    replay_calls(c, plan_.lists, workers_, settings_.judge);
    Workers::Entry& worker = workers_.current(c.backend);
    const auto before = static_cast<std::ptrdiff_t>(worker.calls.size());
    CaseResult r = judge.judge(c);
    if ((before > 0 || worker.asked) && c.after.empty() && may_depend_on_history(r.verdict.status) &&
        !settings_.explained(c, r.verdict))
      if (const auto effort = repeats_.wanted(r); effort != Repeats::Effort::none)
        find_history({worker.calls.begin(), worker.calls.begin() + before},
                     effort == Repeats::Effort::with_history, judge, r);
    Case alone = c;
    alone.backend.clear();
    alone.after.clear();
    workers_.current(c.backend).calls.push_back(alone.line());
    return r;
  }

  // Makes the finding again in new processes, with ever more of what the one had been given in which it was
  // made. What is there again neither alone nor behind calls of the same kernel alone is not this case's: it
  // keeps the verdict of a new process.
  void find_history(const std::vector<std::string>& calls, bool with_history, const Judge& judge,
                    CaseResult& r) {
    const CaseResult as_found = r;
    std::optional<CaseResult> alone;
    const Status found = r.verdict.status;
    Judge again = judge;
    again.options.observe = nullptr;
    const auto shows = [&](const std::vector<std::string>& after) {
      if (settings_.stopped()) throw Stopped{};
      Case c = r.c;
      c.after = after;
      workers_.of(c.backend).worker->restart();
      replay_calls(c, plan_.lists, workers_, again.options);
      CaseResult fresh = again.judge(c);
      const bool same = fresh.verdict.status == found;
      if (after.empty() && !alone) alone = std::move(fresh);
      return same;
    };
    // A hang takes its whole time limit each time: it is made once more, alone.
    const bool slow = found == Status::hang || !with_history;
    std::optional<std::vector<std::string>> after;
    try {
      after = shortest_history(slow ? std::vector<std::string>{} : calls, shows, kHistoryLimit);
    } catch (const Stopped&) {  // no time to make it again: it was found all the same
      return;
    }
    r.repeat = !after ? Repeat::never : after->empty() ? Repeat::alone : Repeat::after_calls;
    repeats_.tell(as_found, r.repeat);
    if (after) r.after = *after;
    if (r.repeat == Repeat::alone) return;
    const auto is_of_this_kernel = [&](const std::string& line) {
      const Case earlier = expand(parse_case(line)).front();
      return earlier.op == r.c.op && earlier.variant == r.c.variant;
    };
    if (after && std::ranges::all_of(*after, is_of_this_kernel)) {
      r.verdict.summary += fmt::format(" (only after {} earlier call{} of its process: see the repro)",
                                       r.after.size(), r.after.size() == 1 ? "" : "s");
      return;
    }
    const std::string where =
        after ? fmt::format("only after earlier calls of its process: {}", repro_command(r))
        : calls.empty()
            ? "not in a new process; its process had been asked what it takes"
            : fmt::format("not in a new process{}; its process had made {} calls before, the last of them {}",
                          slow ? "" : ", nor after all its earlier calls", calls.size(), calls.back());
    workers_.of(r.c.backend).worker->restart();  // what the earlier calls left there strikes no other case
    r = std::move(*alone);
    r.c = as_found.c;
    r.repeat = Repeat::never;
    r.disturbed =
        fmt::format("{}: {}: {} ({})", r.c.line(), to_string(found), as_found.verdict.summary, where);
    r.notes.emplace_back("judged_again", cut(r.disturbed));
  }

  const Plan& plan_;
  const RunSettings& settings_;
  MemoryBudget& memory_;
  Repeats& repeats_;
  Workers own_;
  Workers& workers_;
};

}  // namespace

bool run_plan(const Plan& plan, const std::vector<BackendInfo>& known, const RunSettings& settings,
              const RunEvents& events) {
  Shared shared{
      plan, settings,
      MemoryBudget(settings.memory_bytes > 0 ? settings.memory_bytes : kMemoryShare * bytes_available())};
  std::vector<std::size_t> first_place;  // of each group
  std::size_t places = 0;
  for (const Group& group : plan.groups) {
    first_place.push_back(places);
    places += group.cases.size();
  }
  std::mutex mutex;
  std::map<std::size_t, CaseResult> waiting = settings.known;  // finished, and behind one that is not
  std::size_t delivered = 0;
  const auto deliver_ready = [&] {
    for (auto at = waiting.find(delivered); at != waiting.end(); at = waiting.find(++delivered)) {
      events.in_order(at->second);
      waiting.erase(at);
    }
  };
  deliver_ready();

  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  const double opening = settings.opened != nullptr ? settings.opened->opening_seconds() : 0;
  const std::chrono::duration<double> wait(opening >= kLongOpening ? opening : 0);
  std::condition_variable all_begun;
  const auto none_left = [&] { return next >= plan.groups.size(); };
  const auto work = [&](Workers* opened) {
    try {
      if (opened == nullptr && wait.count() > 0) {
        std::unique_lock lock(mutex);
        if (all_begun.wait_for(lock, wait, none_left)) return;
      }
      Job job(shared, known, opened);
      for (std::size_t n = next++; n < plan.groups.size(); n = next++) {
        if (settings.stopped()) throw Stopped{};
        const std::size_t g = settings.order.empty() ? n : settings.order[n];
        const std::size_t first = first_place[g];
        const auto has = [&](std::size_t i) { return settings.known.contains(first + i); };
        std::size_t left = 0;
        for (std::size_t i = 0; i < plan.groups[g].cases.size(); ++i) left += has(i) ? 0 : 1;
        if (left == 0) continue;
        job.run(plan.groups[g], has, [&](std::size_t i, CaseResult r) {
          const std::lock_guard lock(mutex);
          events.finished(first + i, r);
          waiting.emplace(first + i, std::move(r));
          deliver_ready();
        });
      }
    } catch (const Stopped&) {
      next = plan.groups.size();
    } catch (...) {  // of the events: a report that cannot go on
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = plan.groups.size();
    }
    all_begun.notify_all();
  };
  {
    std::vector<std::jthread> threads;
    const auto jobs = std::min(static_cast<std::size_t>(settings.jobs), plan.groups.size());
    for (std::size_t i = 1; i < jobs; ++i) threads.emplace_back(work, nullptr);
    work(settings.opened);
  }
  if (failure) std::rethrow_exception(failure);
  const bool complete = delivered == places;
  for (auto& [place, r] : waiting) events.in_order(r);
  return complete;
}

}  // namespace assay
