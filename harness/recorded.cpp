#include "harness/recorded.hpp"

#include <fmt/format.h>

#include "harness/judge.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

Contract declared_in(const CaseFile& file, const std::optional<std::string>& contract) {
  const auto named = file.about.find("contract");
  return Contract::parse(contract                    ? *contract
                         : named != file.about.end() ? named->second
                                                     : "",
                         file.c.op->contract);
}

}  // namespace

void refuse_fault(const Case& c) {
  if (c.fault != "none")
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("{}: what a fault asks for takes two runs: judge a backend with assay run", c.line()));
}

std::vector<Truth> truths_of_recorded(const CaseFile& file, const std::optional<std::string>& contract) {
  return file.c.op->truth(file.c.attributes, file.set, declared_in(file, contract));
}

CaseResult judge_recorded(const CaseFile& file, const std::optional<std::string>& contract, bool strict) {
  const Case& c = file.c;
  if (file.got.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("{}: the file has no outputs: judge a backend on it with assay run", c.line()));
  refuse_fault(c);
  Inputs inputs;
  inputs.tensors = c.op->tensors(c.attributes);
  inputs.set = file.set;
  const Contract declared = declared_in(file, contract);
  CaseResult r;
  r.c = c;
  r.contract = declared.print();
  const auto truths = c.op->truth(c.attributes, inputs.set, declared);
  r.verdict = judge_outputs(c, declared, inputs, truths, file.got, &r.reference_seconds);
  r.verdict.seen = sharpness(truths, inputs.tensors);
  if (strict && r.verdict.status == Status::pass && r.verdict.blind()) {
    r.verdict.status = Status::blind;
    r.verdict.summary = "an error of 10 % would go unseen in half of the elements";
  }
  return r;
}

std::string judged_text(const CaseResult& r, std::string_view where) {
  const Verdict& v = r.verdict;
  std::string text =
      fmt::format("{}{} {}: {}\n", v.green() ? "" : "FAIL ", to_string(v.status), where, r.c.line());
  if (!v.summary.empty()) text += fmt::format("  what   {}\n", v.summary);
  if (!v.detail.empty()) text += v.detail + "\n";
  text += fmt::format("  under  {}\n  judged {} outputs\n", r.contract, v.elements);
  if (v.green())
    text += fmt::format(
        "  worst  {:.3g} of the limit; an error of {} would have been seen in half of the elements\n",
        v.worst_ratio, percent(v.seen.half, "no size"));
  return text;
}

}  // namespace assay
