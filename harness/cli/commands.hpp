// The subcommands of `assay`. Each adds itself to the parser; its callback sets the exit code.
#pragma once

#include "harness/backend_names.hpp"
#include "harness/case.hpp"
#include "harness/cli/command.hpp"
#include "harness/exit_code.hpp"
#include "harness/judge.hpp"
#include "harness/laws.hpp"
#include "reference/inputs/lists.hpp"

namespace assay {

// The names of --backend: behind commas, though options and files that are there may have commas of their
// own.
inline std::vector<std::string> backend_names(const std::string& text) { return typed_backends(text); }

void add_run(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws);
void add_compare(const Command& program, int& exit_code);
void add_history(const Command& program, int& exit_code);
void add_judge(const Command& program, int& exit_code);
void add_laws(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws);
void add_speed(const Command& program, int& exit_code, const InputLists& lists);
void add_list(const Command& program, int& exit_code, const InputLists& lists);
void add_contract(const Command& program, int& exit_code, const InputLists& lists);
void add_explain(const Command& program, int& exit_code, const InputLists& lists);
void add_manual(const Command& program, int& exit_code);
void add_doctor(const Command& program, int& exit_code);
void add_export(const Command& program, int& exit_code, const InputLists& lists);
void add_shrink(const Command& program, int& exit_code, const InputLists& lists);
void add_repro(const Command& program, int& exit_code, const InputLists& lists);
// What `assay attribute` prints of a case; cases/attribution has it.
using AttributeCase = std::string (*)(const Case& c, const InputLists& lists, Workers& workers,
                                      const JudgeOptions& options);
void add_attribute(const Command& program, int& exit_code, const InputLists& lists, AttributeCase attribute);
void add_hunt(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws,
              AttributeCase attribute);
void add_selftest(const Command& program, int& exit_code);

}  // namespace assay
