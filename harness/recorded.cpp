#include "harness/recorded.hpp"

#include <fmt/format.h>

#include "harness/judge.hpp"
#include "reference/error.hpp"

namespace assay {

CaseResult judge_recorded(const CaseFile& file, const std::optional<std::string>& contract, bool strict) {
  const Case& c = file.c;
  if (file.got.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("{}: the file has no outputs: judge a backend on it with assay run", c.line()));
  if (c.fault != "none")
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("{}: what a fault asks for takes two runs: judge a backend with assay run", c.line()));
  Inputs inputs;
  inputs.tensors = c.op->tensors(c.attributes);
  inputs.set = file.set;
  const auto named = file.about.find("contract");
  const Contract declared = Contract::parse(contract                    ? *contract
                                            : named != file.about.end() ? named->second
                                                                        : "",
                                            c.op->contract);
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

}  // namespace assay
