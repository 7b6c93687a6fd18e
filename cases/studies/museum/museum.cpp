#include "cases/studies/museum/museum.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cases/lists.hpp"
#include "cases/studies/mutants/rules.hpp"
#include "cases/studies/mutants/usual_truth.hpp"
#include "harness/call.hpp"
#include "reference/near_names.hpp"

namespace assay::museum {
namespace {

constexpr std::string_view kBackend = "museum";

Case case_of(const Exhibit& exhibit, std::string_view suffix) {
  Case c = expand(parse_case(exhibit.line, exhibit.name), exhibit.name).at(0);
  c.backend = kBackend;
  c.variant = fmt::format("{}{}", exhibit.name, suffix);
  return c;
}

bool in_eight_bits(const Case& c) {
  return std::ranges::any_of(c.op->tensors(c.attributes), [](const TensorSpec& t) {
    return t.role == TensorRole::data && format(t.format).bits_per_element <= 9;
  });
}

void ask_rules(Shown& shown, const std::vector<std::vector<double>>& got,
               const std::vector<std::vector<double>>& good, const std::vector<Truth>& truths,
               const Inputs& inputs) {
  const bool narrow = in_eight_bits(shown.defect.c);
  const bool integers = shown.defect.c.fill == "integers";
  const auto values = mutants::usual_truth(shown.defect.c, inputs.set, truths);
  for (const auto& rule : mutants::rules()) {
    const auto accepts = [&](const std::vector<std::vector<double>>& outputs) {
      bool all = outputs.size() == truths.size() && good.size() == truths.size();
      for (std::size_t o = 0; all && o < truths.size(); ++o) {
        const auto spec = std::ranges::find(inputs.tensors, truths[o].output, &TensorSpec::name);
        all = rule.accepts({values[o], outputs[o], good[o], spec->format, narrow, integers});
      }
      return all;
    };
    const bool false_alarm = !accepts(good);
    shown.rules.push_back({rule.name, !accepts(got) && !false_alarm, false_alarm});
  }
}

std::string_view kind_of(const Exhibit& e) {
  return e.check != nullptr ? "check" : e.scenario ? "scenario" : to_string(e.expected);
}

}  // namespace

bool Shown::missed_by_rules() const {
  return !rules.empty() && std::ranges::none_of(rules, &RuleSays::catches);
}

const Exhibit& find_exhibit(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& e : exhibits()) {
    if (e.name == name || e.number == name) return e;
    names.emplace_back(e.name);
  }
  throw unknown_name("exhibit", name, names);
}

Shown show(const Exhibit& exhibit, Workers& workers) {
  Shown shown;
  shown.exhibit = &exhibit;
  if (exhibit.scenario) return shown;
  if (exhibit.check != nullptr) {
    const Noticed noticed = exhibit.check();
    shown.caught = noticed.fault, shown.counterpart_passes = noticed.counterpart;
    shown.outputs = 1, shown.false_alarms = noticed.counterpart ? 0 : 1;
    return shown;
  }
  const Case defect = case_of(exhibit, ""), counterpart = case_of(exhibit, ".correct");
  const Inputs inputs = make_inputs(defect, input_lists());
  TruthCache truths;
  std::vector<std::vector<double>> outputs;  // of the latest run
  Judge judge{inputs, truths, workers};
  judge.options.observe = [&](const RunResult& r) { outputs = decode_outputs(inputs, r.outputs); };
  shown.counterpart = judge.judge(counterpart);
  const auto good = std::exchange(outputs, {});
  shown.defect = judge.judge(defect);
  const auto got = std::exchange(outputs, {});
  shown.caught = shown.defect.verdict.status == exhibit.expected;
  shown.counterpart_passes = shown.counterpart.verdict.status == Status::pass;
  shown.outputs = shown.counterpart.verdict.elements;
  shown.false_alarms = shown.counterpart_passes ? 0 : std::max<std::size_t>(1, shown.counterpart.verdict.bad);
  if (!shown.counterpart.contract.empty())
    ask_rules(shown, got, good, judge.truths_of(shown.counterpart), inputs);
  return shown;
}

std::string show_line(const Shown& shown) {
  const Exhibit& e = *shown.exhibit;
  if (e.scenario) return fmt::format("scenario               {:>4} {}\n", e.number, e.name);
  const std::string_view found = e.check != nullptr ? "refused" : to_string(shown.defect.verdict.status);
  std::vector<std::string_view> others, alarms;
  for (const auto& r : shown.rules) {
    if (r.catches) others.push_back(r.rule);
    if (r.false_alarm) alarms.push_back(r.rule);
  }
  return fmt::format(
      "{} {:<16} {:>4} {:<26} counterpart {}  usual rules: {}{}\n", shown.caught ? "caught" : "MISSED", found,
      e.number, e.name, shown.counterpart_passes ? "pass" : "FALSE ALARM",
      shown.rules.empty() ? "-"
      : others.empty()    ? "all miss it"
                          : fmt::format("{}", fmt::join(others, ", ")),
      alarms.empty() ? "" : fmt::format("; they reject the counterpart: {}", fmt::join(alarms, ", ")));
}

std::string story(const Shown& shown) {
  const Exhibit& e = *shown.exhibit;
  std::string text = fmt::format("{}  {}\n  {}\n  seen in   {}\n", e.number, e.name, e.title, e.citation);
  if (e.scenario) return text + "  state of an engine: shown by a scenario, not by one call of a kernel\n";
  if (!e.correct_behaviour.empty()) text += fmt::format("  correct   {}\n", e.correct_behaviour);
  text += "  " + show_line(shown);
  if (e.check != nullptr) return text;
  text += fmt::format("  contract  {}\n", shown.counterpart.contract);
  if (!shown.defect.verdict.summary.empty())
    text += fmt::format("  found     {}\n", shown.defect.verdict.summary);
  if (!shown.defect.verdict.detail.empty()) text += shown.defect.verdict.detail + "\n";
  if (!shown.counterpart_passes)
    text += fmt::format("  correct   {}\n{}\n", shown.counterpart.verdict.summary,
                        shown.counterpart.verdict.detail);
  text += fmt::format("  repro     assay run '{}'\n", shown.defect.c.line());
  text += fmt::format("  repro     assay run '{}'\n", shown.counterpart.c.line());
  return text;
}

void add_exhibits(Workers& workers, KillTable& table) {
  for (const auto& e : exhibits()) {
    if (e.line.empty()) continue;
    const Shown shown = show(e, workers);
    Exhibit customary = e;  // the same case under the customary input
    std::string line(e.line);
    if (const auto at = line.find(" fill="); at != std::string::npos)
      line.erase(at, line.find(' ', at + 1) - at);
    customary.line = line;
    const Shown gaussian = line == e.line ? shown : show(customary, workers);
    KillRow row;
    row.id = fmt::format("{} {}", e.number, e.name);
    row.group = "museum";
    row.place = e.citation;
    row.before = e.correct_behaviour, row.after = e.title;
    row.assay = {gaussian.caught, shown.caught};
    for (std::size_t r = 0; r < shown.rules.size(); ++r)
      row.rules.push_back({r < gaussian.rules.size() && gaussian.rules[r].catches, shown.rules[r].catches});
    row.verdict = to_string(shown.defect.verdict.status);
    row.case_line = shown.defect.c.line();
    table.rows.push_back(std::move(row));
    ++table.correct.runs;
    table.correct.outputs += shown.outputs;
    table.correct.assay += shown.false_alarms;
    table.correct.rules.resize(shown.rules.size());
    for (std::size_t r = 0; r < shown.rules.size(); ++r)
      if (shown.rules[r].false_alarm) ++table.correct.rules[r];
    if (!shown.counterpart_passes) table.correct.assay_cases.push_back(shown.counterpart.c.line());
  }
}

std::string table() {
  std::string text =
      "| no. | exhibit | what shipped | seen in | expected | correct counterpart | case "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const auto& e : exhibits())
    text += fmt::format("| {} | `{}` | {} | {} | {} | {} | {} |\n", e.number, e.name, e.title, e.citation,
                        kind_of(e), e.correct_behaviour.empty() ? "-" : e.correct_behaviour,
                        e.line.empty() ? "-" : fmt::format("`{}`", e.line));
  return text;
}

}  // namespace assay::museum
