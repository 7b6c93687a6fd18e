#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "harness/culprit/crop.hpp"
#include "harness/culprit/shrink.hpp"
#include "harness/shell.hpp"

namespace assay::culprit {
namespace {

constexpr std::size_t kShown = 64;  // numbers of a tensor that are listed

std::string listed(const std::vector<float>& numbers) {
  std::string text;
  for (const float x : numbers) text += fmt::format("{}{:.9g}", text.empty() ? "" : " ", x);
  return text;
}

std::string tensors_text(const Specimen& s) {
  std::string text;
  for (const TensorSpec& t : s.inputs.tensors) {
    text += fmt::format("  {}{} {}", t.name, assay::to_string(t.shape), t.format);
    if (t.role != TensorRole::output) {
      const std::vector<float> numbers = numbers_of(s.inputs.given().at(t.name));
      if (numbers.size() <= kShown) {
        text += fmt::format(" = {}", listed(numbers));
      } else {
        const auto nonzero = std::ranges::count_if(numbers, [](float x) { return x != 0; });
        text += fmt::format(", {} of {} not 0", nonzero, numbers.size());
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string issue_text(const Shrunk& shrunk, const std::string& file, const Provenance& provenance,
                       const std::string& backend_description) {
  const CaseResult& r = shrunk.finding.result;
  Case bare = shrunk.specimen.c;
  bare.backend.clear(), bare.variant.clear();
  std::string text = fmt::format("### {}: {}{}\n\n", r.c.op->name, assay::to_string(r.verdict.status),
                                 r.expected_path.empty() ? "" : " in " + r.expected_path);
  text += fmt::format(
      "What happens: {}\n\n```\n{}\n{}```\n\n", r.verdict.summary, r.c.op->formula,
      r.verdict.detail.empty() ? "" : r.verdict.detail + (r.verdict.detail.ends_with('\n') ? "" : "\n"));
  text += fmt::format("Inputs (`{}`):\n\n```\n{}```\n\n", bare.line(), tensors_text(shrunk.specimen));
  if (!shrunk.specimen.c.after.empty()) {
    text += "Only after these calls in the same process:\n\n```\n";
    for (const std::string& line : shrunk.specimen.c.after) text += line + "\n";
    text += "```\n\n";
  }
  text += fmt::format("Contract (the arithmetic that the kernel declares): `{}`\n\n",
                      r.contract.empty() ? "none" : r.contract);
  text += fmt::format(
      "Expected: every element within the limit that this contract allows, by the declared kernel{}.\n",
      r.expected_path.empty() ? "" : " " + r.expected_path);
  text += fmt::format("Got: {}\n\n", r.verdict.summary);
  text += fmt::format("Versions: {}; assay {}{}\n\n", backend_description, provenance.version,
                      provenance.commit.empty() ? "" : " (" + provenance.commit + ")");
  text +=
      fmt::format("How to run it, with the attached file:\n\n```\nassay run {}\n```\n", shell_quoted(file));
  return text;
}

}  // namespace assay::culprit
