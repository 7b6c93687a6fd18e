// assay compare: yesterday's run beside today's.
#include "reports/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include "harness/cli/commands.hpp"
#include "harness/cli/words.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reports/file.hpp"

namespace assay {
namespace {

struct CompareArguments {
  std::vector<std::string> files;
  std::vector<std::string> fail_on = {"red", "other", "worse", "lost", "path"};
  CompareRules rules;
  int shown = 20;
  std::string markdown, json, page;
};

int run(const CompareArguments& a) {
  if (a.files.size() < 2)
    throw InputError(InputErrorKind::bad_value, "compare: two files at least: BEFORE [BEFORE ...] AFTER");
  for (const std::string& kind : a.fail_on)
    if (std::ranges::find(kChangeNames, kind) == std::end(kChangeNames))
      throw InputError(InputErrorKind::unknown_name,
                       fmt::format("--fail-on {}: allowed: {}", kind, fmt::join(kChangeNames, ", ")));
  std::vector<ComparedRun> runs;
  for (const std::string& file : a.files) runs.push_back(read_compared(file));
  const ComparedRun after = std::move(runs.back());
  runs.pop_back();
  const RunComparison c = compare(runs, after, a.rules);
  const auto shown = static_cast<std::size_t>(a.shown);
  fmt::print("{}", comparison_text(c, shown));
  if (!a.markdown.empty()) write_report(a.markdown, comparison_markdown(c, shown));
  if (!a.json.empty()) write_report(a.json, comparison_json(c));
  if (!a.page.empty()) write_report(a.page, comparison_page(c, a.files));
  const bool finding = std::ranges::any_of(c.changes, [&](const Change& change) {
    return std::ranges::find(a.fail_on, to_string(change.kind)) != a.fail_on.end();
  });
  if (finding) return kFinding;
  return c.cases == 0 ? kNothingJudged : kGreen;  // two runs without a common case show nothing
}

}  // namespace

void add_compare(const Command& program, int& exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  const Command command = program.subcommand("compare", "Say what changed between two runs");
  command.option(
      "files", arguments->files,
      "Reports (assay run --json) or records (--record): one or several of before, then the one of after",
      {.required = true});
  command.option(
      "--fail-on", arguments->fail_on,
      "Kinds of change that end with exit code 1, separated by commas: red, other, worse, lost, path, "
      "contract, drift, slower, fixed, added",
      {.split = split_commas, .shown = "red,other,worse,lost,path"});
  command.option("--worse", arguments->rules.worse,
                 "A finding has grown when its worst ratio is this many times what it was",
                 {.low = 1, .high = 1e300});
  command.option("--drift", arguments->rules.drift,
                 "A pass has drifted when its worst ratio is this many times the largest of before",
                 {.low = 1, .high = 1e300});
  command.option(
      "--slower", arguments->rules.slower,
      "Kernels of one op, formats and backend are slower when they take this many times as long, with "
      "an error of 1 %; against what all cases take together",
      {.low = 1, .high = 1e300});
  command.option("--shown", arguments->shown, "Changes of a kind that are shown",
                 {.low = 1, .high = 1000000});
  command.option("--md", arguments->markdown, "Write the comparison as Markdown to this file");
  command.option("--json", arguments->json, "Write the comparison as JSON to this file");
  command.option("--html", arguments->page, "Write the comparison as one page to this file");
  command.footer(
      "Examples:\n"
      "  assay compare monday.json tuesday.json\n"
      "  assay compare sunday.jsonl monday.jsonl tuesday.jsonl --md changes.md --fail-on red,worse,lost");
  command.callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace assay
