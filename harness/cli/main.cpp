// assay: finds out whether LLM inference kernels compute what they claim, and by the path that they claim.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "harness/cli/commands.hpp"
#include "reference/error.hpp"
#include "reference/self_test.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a worker that died is a verdict, not the end of the program
  using namespace assay;
  // A build whose NaN compares or roundings are broken would judge wrongly, and look sure of it.
  if (const auto broken = self_test(); !broken.empty()) {
    fmt::print(stderr, "assay: this build cannot be trusted:\n{}\n", describe(broken));
    return kCannotRun;
  }
  CLI::App app{
      "Judges kernels of LLM inference engines against a high-precision reference with proven error bounds."};
  app.require_subcommand(1);
  app.set_version_flag("--version", ASSAY_VERSION);
  app.footer(
      "Exit codes: 0 all green, 1 a finding, 2 wrong usage, 3 nothing was executed, 125 cannot be built or "
      "run.");
  int exit_code = kGreen;
  add_run(app, exit_code);
  add_list(app, exit_code);
  add_explain(app, exit_code);
  add_doctor(app, exit_code);
  add_cascade(app, exit_code);
  add_kill_table(app, exit_code);
  add_museum(app, exit_code);
  add_selftest(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kGreen : kUsage;
  } catch (const InputError& e) {
    fmt::print(stderr, "assay: {}\n", e.what());
    return kUsage;
  } catch (const std::exception& e) {
    fmt::print(stderr, "assay: {}\n", e.what());
    return kCannotRun;
  }
  return exit_code;
}
