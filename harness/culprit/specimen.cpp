#include "harness/culprit/specimen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/call.hpp"
#include "harness/history.hpp"
#include "harness/input_lists.hpp"
#include "harness/suites.hpp"

namespace assay::culprit {
namespace {

ElementKind kind_of(double got, double want) {
  if (std::isnan(got) != std::isnan(want)) return ElementKind::nan;
  if (std::isinf(got) || std::isinf(want)) return ElementKind::infinity;
  return ElementKind::number;
}

// The output and the kind of element of a verdict over numbers.
void look_at_numbers(Finding& f) {
  for (const Truth& t : f.truths) {
    const auto found = f.got.find(t.output);
    if (found == f.got.end()) continue;
    std::vector<double> got;
    try {
      got = decode_tensor(found->second);
    } catch (const InputError&) {  // a quantised output whose own scale is none
      f.symptom.output = t.output, f.symptom.kind = ElementKind::nan;
      return;
    }
    const Comparison comparison = compare(t, got);
    if (comparison.ok) continue;
    f.symptom.output = t.output;
    f.symptom.kind = kind_of(got[comparison.worst], t.value[comparison.worst]);
    return;
  }
}

}  // namespace

std::string_view to_string(ElementKind kind) {
  constexpr std::string_view kNames[] = {"none", "nan", "infinity", "number"};
  return kNames[static_cast<std::size_t>(kind)];
}

Finding judge_specimen(const Specimen& specimen, const InputLists& lists, Workers& workers,
                       const JudgeOptions& options, bool fresh) {
  if (!specimen.c.after.empty())
    replay_calls(specimen.c, lists, workers, options);
  else if (fresh)
    workers.of(specimen.c.backend).worker->restart();
  TruthCache truths;
  Finding f;
  JudgeOptions watched = options;
  watched.observe = [&](const RunResult& run) {
    if (!run.outputs.empty()) f.got = output_tensors(specimen.inputs, run.outputs);
  };
  const Judge judge{specimen.inputs, truths, workers, watched};
  f.result = judge.judge(specimen.c);
  f.symptom.status = f.result.verdict.status;
  if (f.result.contract.empty() || f.result.verdict.status == Status::impossible) return f;
  try {
    f.truths = judge.truths_of(f.result);
  } catch (const InputError&) {  // the reference has none of such bytes
    return f;
  }
  for (const Truth& t : f.truths) {
    const Comparison zeros = compare(t, std::vector<double>(t.value.size(), 0.0));
    f.shows = f.shows || !(zeros.ok || zeros.unclaimed);
  }
  if (f.symptom.status == Status::wrong) look_at_numbers(f);
  return f;
}

CaseFile case_file_of(const Specimen& specimen, const Finding& finding, const Provenance& provenance) {
  CaseFile file;
  file.c = specimen.c;
  if (file_of_fill(file.c.fill)) file.c.fill = Case{}.fill;  // the file does not name itself
  file.set = specimen.inputs.set;
  file.clean = specimen.inputs.clean;
  file.corrupted = specimen.inputs.corrupted;
  file.truths = finding.truths;
  file.got = finding.got;
  file.about = {{"contract", finding.result.contract},
                {"path", finding.result.expected_path},
                {"verdict", std::string(assay::to_string(finding.result.verdict.status))},
                {"summary", finding.result.verdict.summary},
                {"detail", finding.result.verdict.detail},
                {"version", provenance.version},
                {"commit", provenance.commit}};
  return file;
}

Case one_case(const std::string& word, const std::string& backend) {
  std::vector<Case> cases;
  for (const SuiteLine& line : gather_lines({word}))
    for (Case& c : expand(parse_case(line.text, line.where), line.where)) cases.push_back(std::move(c));
  if (cases.size() != 1)
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("'{}' is {} cases; allowed: a line of one case, or a case file", word, cases.size()));
  Case c = std::move(cases.front());
  if (!backend.empty()) c.backend = backend;
  if (c.backend.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("'{}' names no backend; allowed: backend=NAME in the line, or --backend NAME", word));
  return c;
}

}  // namespace assay::culprit
