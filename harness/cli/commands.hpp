// The subcommands of `assay`. Each adds itself to the parser; its callback sets the exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace assay {

// 0 all green; 1 a finding; 2 wrong usage; 3 nothing was executed; 125 cannot be built or run (what `git
// bisect run` skips).
enum ExitCode : int { kGreen = 0, kFinding = 1, kUsage = 2, kNothingExecuted = 3, kCannotRun = 125 };

void add_run(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_cascade(CLI::App& app, int& exit_code);
void add_live_options(CLI::App& command, struct LiveOptions& options);  // of `cascade --endpoint`
void add_kill_table(CLI::App& app, int& exit_code);
void add_museum(CLI::App& app, int& exit_code);
void add_selftest(CLI::App& app, int& exit_code);

}  // namespace assay
