// assay selftest: shows on this machine, in seconds, that this build still notices faults. Each check is a
// fault that must be caught beside a correct counterpart that must pass: first in the judging of numbers,
// then in what kernels do to a worker.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "harness/cli/commands.hpp"
#include "harness/cli/misdeeds.hpp"
#include "harness/inputs.hpp"
#include "harness/suites.hpp"
#include "harness/verdict.hpp"
#include "reference/inputs/fill.hpp"
#include "reference/self_test.hpp"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool passes(double value, double limit, double got) {
  const Truth truth{"y", {value}, {limit}, ""};
  return compare(truth, std::vector<double>{got}).ok;
}

bool arithmetic() { return self_test().empty(); }
bool nan_fails() { return !passes(1, 0.5, kNaN) && !passes(1, kAnyNumber, kNaN) && passes(1, 0.5, 1.5); }
bool nan_limit_fails() { return !passes(1, kNaN, 1) && passes(1, 0, 1); }
bool nan_is_demanded() { return !passes(kNaN, 0, 0) && passes(kNaN, 0, kNaN); }
bool infinity_is_demanded() {
  return !passes(kInfinity, kAnyNumber, 65504) && passes(-kInfinity, 0, -kInfinity);
}
bool beyond_the_limit_fails() {
  return !passes(1, 0x1p-10, std::nextafter(1 + 0x1p-10, 2)) && passes(1, 0x1p-10, 1 + 0x1p-10);
}
bool no_element_fails() { return !compare(Truth{"y", {}, {}, ""}, {}).ok; }
bool one_bad_of_many_fails() {
  Truth truth{"y", std::vector<double>(1000, 1.0), std::vector<double>(1000, 0.25), ""};
  std::vector<double> got(1000, 1.0);
  const bool counterpart = compare(truth, got).ok;
  got[999] = 1.5;
  const Comparison c = compare(truth, got);
  return counterpart && !c.ok && c.bad == 1 && c.worst == 999;
}
bool zeros_are_distrusted() {
  return compare(Truth{"y", {1e-3}, {1e-2}, ""}, std::vector<double>{1e-3}).zeros_would_pass &&
         !compare(Truth{"y", {1e-3}, {1e-4}, ""}, std::vector<double>{1e-3}).zeros_would_pass;
}
bool suites_are_a_fixed_point() {
  for (const auto& name : suite_names())
    for (const auto& line : gather_lines({name})) {
      const CaseSet set = parse_case(line.text, line.where);
      if (!(parse_case(set.print()) == set)) return false;
    }
  return true;
}

struct Check {
  std::string_view name;
  bool (*holds)();
};
constexpr Check kChecks[] = {
    {"the arithmetic of this build and machine", arithmetic},
    {"a NaN output fails, whatever number the limit is", nan_fails},
    {"a NaN limit passes nothing", nan_limit_fails},
    {"where NaN is true, a number fails", nan_is_demanded},
    {"where an infinity is true, a large number fails", infinity_is_demanded},
    {"one step beyond the limit fails, the limit itself passes", beyond_the_limit_fails},
    {"nothing judged is not a pass", no_element_fails},
    {"one bad element of a thousand fails, and is found", one_bad_of_many_fails},
    {"inputs that an all-zero kernel would pass are noticed", zeros_are_distrusted},
    {"every suite line is a fixed point of parse and print", suites_are_a_fixed_point}};

int selftest() {
  int broken = 0;
  const auto report = [&](bool ok, std::string_view what) {
    fmt::print("{}  {}\n", ok ? "ok    " : "BROKEN", what);
    if (!ok) ++broken;
  };
  for (const auto& check : kChecks) report(check.holds(), check.name);
  fmt::print(
      "\nwhat kernels do to a worker, and what was noticed; after each its correct counterpart passes\n");
  for (const auto& judgement : judge_misdeeds()) report(judgement.right, judgement.text);
  if (const auto failures = self_test(); !failures.empty()) fmt::print("{}\n", describe(failures));
  return broken == 0 ? kGreen : kFinding;
}

}  // namespace

void add_selftest(const Command& program, int& exit_code) {
  const Command command = program.subcommand("selftest", "Show that this build still notices faults");
  command.footer("Example:\n  assay selftest");
  command.callback([&exit_code] { exit_code = selftest(); });
}

}  // namespace assay
