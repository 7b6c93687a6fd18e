// assay history: a case over the runs of many days.
#include "reports/history.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "harness/cli/commands.hpp"
#include "reports/file.hpp"

namespace assay {
namespace {

struct HistoryArguments {
  std::string words, page;
  std::vector<std::string> files;
  bool changed_only = false;
};

int run(const HistoryArguments& a) {
  std::vector<ComparedRun> runs;
  for (const std::string& file : a.files) runs.push_back(read_compared(file));
  auto cases = histories(runs, a.words);
  if (a.changed_only) std::erase_if(cases, [](const CaseHistory& c) { return !c.changed(); });
  fmt::print("{}", history_text(runs, cases));
  if (!a.page.empty()) write_report(a.page, history_page(runs, cases));
  return cases.empty() ? kNothingJudged : kGreen;
}

}  // namespace

void add_history(const Command& program, int& exit_code) {
  auto arguments = std::make_shared<HistoryArguments>();
  const Command command = program.subcommand("history", "Follow cases through the reports of many runs");
  command.option("case", arguments->words,
                 "Words of the case's line: 'softmax cols=33 backend=cpu' is each case that has all of them; "
                 "'': every case",
                 {.required = true});
  command.option("files", arguments->files,
                 "Reports (assay run --json) or records (--record), the oldest first", {.required = true});
  command.flag("--changed", arguments->changed_only, "Only cases whose verdict, contract or path changed");
  command.option("--html", arguments->page,
                 "Write one page: verdicts and worst ratios as lines over the runs");
  command.footer(
      "Examples:\n"
      "  assay history 'attention kv=q8_0 backend=cpu' nightly/*.json\n"
      "  assay history '' monday.json tuesday.json --changed --html trend.html");
  command.callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
