// assay speed: calls timed in pairs, and whether one is slower than its partner.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/cli/commands.hpp"
#include "harness/cli/stoppable.hpp"
#include "harness/plan.hpp"
#include "harness/speed.hpp"
#include "harness/suites.hpp"

namespace assay {
namespace {

struct SpeedArguments {
  std::vector<std::string> words, backends;
  std::string than, over;
  SpeedOptions options;
  double timeout_seconds = 10;
};

int run_speed(SpeedArguments& a, const InputLists& lists, const StopSignals& signals) {
  SpeedPair pair;
  if (!a.over.empty()) {
    const auto equals = a.over.find('='), comma = a.over.find(',');
    if (equals == std::string::npos || comma == std::string::npos || comma < equals)
      throw InputError(InputErrorKind::bad_value,
                       "--over " + a.over + ": KEY=LOW,HIGH is needed, as in len=1024,4096");
    pair.attribute = a.over.substr(0, equals);
    pair.low = a.over.substr(equals + 1, comma - equals - 1), pair.high = a.over.substr(comma + 1);
  }
  std::vector<SuiteLine> lines = gather_lines(a.words);
  for (SuiteLine& line : lines)  // the attribute that slopes run over need not stand in the case
    if (!a.over.empty() && (line.text + " ").find(" " + pair.attribute + "=") == std::string::npos)
      line.text += " " + pair.attribute + "=" + pair.low;
  const auto known = known_backends();
  Workers workers(known, stopped_by(signals));
  a.options.timeout = milliseconds(a.timeout_seconds);
  PlanOptions options;
  options.backends = a.backends;
  const auto variants = [&](const std::string& backend) { return workers.open(backend).variants; };
  std::size_t slower = 0, shown = 0, cases = 0;
  for (const auto& group : make_plan(lines, options, known, lists, variants).groups)
    for (const Case& c : group.cases) {
      pair.first = c, pair.second = partner(c, a.than);
      const SpeedResult r = compare_speed(pair, workers, lists, a.options);
      fmt::print("{}", describe(r));
      if (r.slower())
        fmt::print("  repro  assay speed '{}' --than '{}'{}\n", c.line(), a.than,
                   a.over.empty() ? "" : " --over " + a.over);
      ++cases;
      slower += r.slower();
      shown += r.slower() || r.no_slower();
    }
  fmt::print("{} pairs: {} slower, {} no slower, {} not shown or not run\n", cases, slower, shown - slower,
             cases - shown);
  return slower > 0 ? kFinding : shown > 0 ? kGreen : kNothingJudged;
}

}  // namespace

void add_speed(const Command& program, int& exit_code, const InputLists& lists) {
  auto a = std::make_shared<SpeedArguments>();
  const Command command = program.subcommand(
      "speed",
      "Time calls in pairs: is a native format, a quantised cache or a new kernel slower than its partner?");
  command.option("cases", a->words, "Case lines, or suites", {.required = true});
  command.option("--than", a->than,
                 "What the partner has instead: kv=f16, variant=split, backend=./previous.so",
                 {.required = true});
  command.option("--backend,-b", a->backends, "What is timed, as for run", {.split = backend_names});
  command.option("--over", a->over, "Compare slopes between two values of an attribute: len=1024,4096");
  command.option("--allowed", a->options.allowed, "The ratio that is no finding yet",
                 {.low = 0.001, .high = 1e6, .shown = "1.25"});
  command.option("--rounds", a->options.rounds, "How often each pair is timed, interleaved in a drawn order",
                 {.low = 1, .high = 1e6, .shown = "21"});
  command.option("--confidence", a->options.confidence, "Of each end of the interval",
                 {.low = 0.5, .high = 0.999999, .shown = "0.999"});
  command.option("--seed", a->options.seed, "Of the orders", {.shown = "1"});
  command.option("--timeout", a->timeout_seconds, "Seconds, as for run", {.low = 0.001, .high = 86400});
  command.footer(
      "`slower` (exit code 1): even the low end of the ratio's interval is above --allowed. `not shown`: the "
      "machine was "
      "too noisy for either answer; more --rounds help.\nExamples:\n"
      "  assay speed 'attention heads=8 d=128 len=4096 kv=q8_0' --than kv=f16 -b cpu\n"
      "  assay speed 'attention heads=8 d=128 kv=e4m3fn' --than kv=f16 --over len=1024,4096 -b cuda\n"
      "  assay speed 'softmax rows=64 cols=4096' --than backend=./previous.so -b ./mine.so");
  command.callback([a, &exit_code, lists] {
    exit_code = until_stopped([&](const StopSignals& signals) { return run_speed(*a, lists, signals); });
  });
}

}  // namespace assay
