// What every program of the project does around its command line.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "harness/exit_code.hpp"
#include "harness/worker/close_range.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/self_test.hpp"

namespace assay {

// On standard error, which may be as full as standard output is.
inline void complain(const std::string& what) { std::fputs(("assay: " + what + "\n").c_str(), stderr); }

// Where programs, their workers and all that these start are found. A container may be without it.
inline bool has_proc() {
  if (access("/proc/self/exe", F_OK) == 0) return true;
  complain("there is no /proc here (or it is that of another PID namespace): mount -t proc proc /proc");
  return false;
}

// What a command takes where a word or an option of it is missing, and which option was meant: CLI11 says
// "case is required", and "the following argument was not expected".
inline std::string complaint(const CLI::App* app, const CLI::Error& error) {
  const auto chosen = app->get_subcommands();
  const CLI::App* command = chosen.empty() ? app : chosen.front();
  const std::string called = app == command ? app->get_name() : app->get_name() + " " + command->get_name();
  if (error.get_name() == "RequiredError")
    for (const CLI::Option* option : command->get_options())
      if (option->get_required() && option->count() == 0)
        return fmt::format("assay: {} {} {}: {}\n{}\n", called, option->get_positional() ? "takes" : "needs",
                           option->get_positional() ? option->get_name(true) : option->get_name(),
                           option->get_description(), command->get_footer());
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    for (const std::string& word : app->remaining(true)) {
      if (!word.starts_with('-')) continue;
      std::vector<std::string> names;
      for (const CLI::Option* option : command->get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      return fmt::format("assay: {} has no option '{}'; {}\n", called, excerpt(word),
                         suggest(word.substr(0, word.find('=')), names));
    }
  return CLI::FailureMessage::simple(app, error);
}

// Parses the command line, which runs the callbacks of `app`, and turns what they throw into an exit code:
// InputError into kUsage, everything else into kCannotRun. `exit_code` is what the callbacks left.
inline int run_program(CLI::App& app, int argc, char** argv, const int& exit_code) {
  // What a shell left open (9>>file) is not for the programs that this one starts.
  close_descriptors(STDERR_FILENO + 1, ~0U, true);
  std::signal(SIGPIPE, SIG_IGN);  // a worker that died is a verdict, not the end of the program
  std::signal(SIGXFSZ, SIG_IGN);  // memory beyond `ulimit -f` is too big a case
  // A build whose NaN compares or roundings are broken would judge wrongly, and look sure of it.
  if (!has_proc()) return kCannotRun;
  if (const auto broken = self_test(); !broken.empty()) {
    fmt::print(stderr, "assay: this build cannot be trusted:\n{}\n", describe(broken));
    return kCannotRun;
  }
  app.failure_message(complaint);
  int result = kGreen;
  try {
    app.parse(argc, argv);
    result = exit_code;
  } catch (const CLI::ParseError& e) {
    result = app.exit(e) == 0 ? kGreen : kUsage;
  } catch (const InputError& e) {
    complain(e.what());
    return kUsage;
  } catch (const std::exception& e) {
    complain(e.what());
    return kCannotRun;
  }
  // Whoever reads this output must not take half of it for the whole.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    complain(std::string("the output could not be written: ") + std::strerror(errno));
    if (result == kGreen) result = kCannotRun;
  }
  return result;
}

}  // namespace assay
