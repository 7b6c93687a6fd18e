// assay properties: what any backend's kernels owe under clipping, locked scales, NaN, cascades, pairs of
// formats and changed scales, drawn and shrunk.
#include <cstdlib>

#include "cases/studies/properties/properties.hpp"
#include "cases/studies/properties/report.hpp"
#include "harness/backend_names.hpp"
#include "harness/cli/program.hpp"
#include "harness/interrupt.hpp"
#include "reports/file.hpp"

namespace assay::properties {
namespace {

struct Arguments {
  std::string backend, only, draw, json;
  Effort effort;
  double timeout_seconds = 10;
  bool list = false;
};

int verdict_of(const std::vector<PropertyResult>& results) {
  bool judged = false;
  for (const PropertyResult& r : results) {
    if (r.outcome == Outcome::broken) return kFinding;
    judged = judged || r.outcome == Outcome::holds;
  }
  return judged ? kGreen : kNothingJudged;
}

int run(Arguments a) {
  if (a.list) {
    for (const Property& p : properties()) fmt::print("{:9}  {}\n", p.name, p.says);
    return kGreen;
  }
  const auto backends = typed_backends(a.backend);
  if (backends.size() != 1)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--backend {}: one backend is allowed", a.backend));
  if (!a.draw.empty() && a.only.empty())
    throw InputError(InputErrorKind::bad_value,
                     "--draw: it needs --only NAME, the property that it is a draw of");
  const Property* only = a.only.empty() ? nullptr : &property(a.only);
  const StopSignals signals;
  WorkerSettings settings;
  settings.stop_descriptor = signals.descriptor();
  JudgeOptions options;
  options.timeout = std::chrono::milliseconds(std::max(1L, static_cast<long>(1000 * a.timeout_seconds)));
  Subject subject(backends[0], known_backends(), settings, options);
  (void)subject.workers().open(subject.backend());
  a.effort.stopped = [&] { return signals.stopped(); };
  std::vector<PropertyResult> results;
  try {
    for (const Property& p : properties()) {
      if (only != nullptr && &p != only) continue;
      results.push_back(a.draw.empty() ? check_property(p, subject, a.effort)
                                       : check_draw(p, subject, parse_steps(a.draw)));
      fmt::print("{}", describe(results.back(), subject.backend(), a.effort.seed));
      std::fflush(stdout);
    }
  } catch (const Stopped&) {  // in the middle of a call
  }
  if (!a.json.empty())
    write_report(a.json, as_json(results, subject.backend(), a.effort, !signals.stopped()));
  if (signals.stopped()) return 128 + signals.signal();
  const int code = verdict_of(results);
  fmt::print("\n{}\n", headline(results));
  return code;
}

}  // namespace
}  // namespace assay::properties

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Draws requests, scales, NaN and formats at a backend's kernels, and shrinks what fails"};
  app.name("assay properties");
  app.footer(
      "Examples:\n  assay properties -b cpu --draws 20\n  assay properties -b ./mine.so --only clipping "
      "--seed 7\n"
      "Exit codes: 0 all that was asked holds, 1 a property is broken, 2 wrong usage, 3 the backend takes "
      "nothing that is asked");
  properties::Arguments a;
  app.add_option("--backend,-b", a.backend, "Whose kernels, as for run");
  app.add_option("--draws", a.effort.draws,
                 "Of each property; fallbacks: at least one of every pair that is declared")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  app.add_option("--seed", a.effort.seed, "Of the draws")->capture_default_str();
  app.add_option("--only", a.only, "This property alone: clipping, locked, nan, cascade, fallbacks, scales");
  app.add_option("--draw", a.draw, "This draw alone, in a new process: what a finding prints");
  app.add_option("--shrink", a.effort.shrink_seconds, "Seconds after which the smallest draw so far is told")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--timeout", a.timeout_seconds, "Seconds of one call")
      ->check(CLI::Range(0.001, 86400.0))
      ->capture_default_str();
  app.add_option("--json", a.json, "Write what was found to this file (reports/schema.md)");
  app.add_flag("--list", a.list, "The properties, a line each");
  int exit_code = kGreen;
  app.callback([&] {
    if (!a.list && app.count("--backend") == 0) throw CLI::RequiredError("--backend");
    exit_code = properties::run(a);
  });
  return run_program(app, argc, argv, exit_code);
}
