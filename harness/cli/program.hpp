// What every program of the project does around its command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "harness/exit_code.hpp"
#include "reference/error.hpp"
#include "reference/self_test.hpp"

namespace assay {

// Parses the command line, which runs the callbacks of `app`, and turns what they throw into an exit code: InputError
// into kUsage, everything else into kCannotRun. `exit_code` is what the callbacks left.
inline int run_program(CLI::App& app, int argc, char** argv, const int& exit_code) {
  std::signal(SIGPIPE, SIG_IGN);  // a worker that died is a verdict, not the end of the program
  // A build whose NaN compares or roundings are broken would judge wrongly, and look sure of it.
  if (const auto broken = self_test(); !broken.empty()) {
    fmt::print(stderr, "assay: this build cannot be trusted:\n{}\n", describe(broken));
    return kCannotRun;
  }
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

}  // namespace assay
