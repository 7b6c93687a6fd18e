// assay judge: tensors that were recorded, against truth and limit.
#include <fmt/format.h>

#include <memory>

#include "harness/cli/commands.hpp"
#include "harness/cli/words.hpp"
#include "harness/recorded.hpp"
#include "harness/result.hpp"
#include "harness/suite_text.hpp"
#include "reference/error.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

struct JudgeArguments {
  std::vector<std::string> files, names;
  std::string line, contract;
  bool strict = false, contract_given = false;
};

std::map<std::string, std::string> names_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> names;
  for (const std::string& word : words) {
    const auto at = word.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == word.size())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("--map {}: allowed: TENSOR=NAME, the case's and the file's", word));
    names[word.substr(0, at)] = word.substr(at + 1);
  }
  return names;
}

// A layer's tensors are larger than any text; what is no file of tensors still ends somewhere.
constexpr std::uintmax_t kMostTensors = std::uintmax_t{16} << 30;

int judge(const JudgeArguments& a) {
  set_reference_threads(available_processors());
  std::size_t red = 0, outputs = 0;
  for (const std::string& path : a.files) {
    const std::string bytes = read_text(path, "file of tensors", kMostTensors);
    if (bytes.starts_with("PK"))  // a zip, which numpy and PyTorch write
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format(
              "{}: it is no file of safetensors; of .npz and .pt makes one: python3 -m assay.convert {}",
              path, path));
    if (a.line.empty() && !has_case(bytes, path))
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("{}: it does not say which case it is: --case 'OP key=value ...' does", path));
    const CaseFile file = a.line.empty()
                              ? parse_case_file(bytes, path)
                              : parse_dump(parse_safetensors(bytes, path), a.line, names_of(a.names), path);
    const CaseResult r =
        judge_recorded(file, a.contract_given ? std::optional(a.contract) : std::nullopt, a.strict);
    outputs += r.verdict.elements;
    if (!r.verdict.green()) ++red;
    fmt::print("{}", judged_text(r, path));
  }
  fmt::print("{}; {} file{}, {} red; {} outputs judged\n", red == 0 ? kAllGreen : kNotGreen, a.files.size(),
             a.files.size() == 1 ? "" : "s", red, outputs);
  return red == 0 ? kGreen : kFinding;
}

}  // namespace

void add_judge(const Command& program, int& exit_code) {
  auto arguments = std::make_shared<JudgeArguments>();
  const Command command =
      program.subcommand("judge", "Judge outputs that were recorded, without running anything");
  command.option(
      "files", arguments->files,
      "Files of safetensors with inputs and outputs: those of `assay export`, or anybody's with --case",
      {.required = true});
  command.option(
      "--case", arguments->line,
      "What the tensors of the files are: a case line (assay manual OP names the tensors and their shapes)");
  command.option("--map", arguments->names, "How the files call them, where it is not so: x=hidden,y=out",
                 {.split = split_commas});
  command.option(
      "--contract", arguments->contract,
      "The arithmetic that the kernel declares (default: what the file says, or the op's defaults)");
  command.flag("--strict", arguments->strict,
               "A pass that could not have shown an error of 10 % in half of its elements is red");
  command.footer(
      "Examples:\n"
      "  assay judge layer7.safetensors --case 'rmsnorm rows=4 cols=4096 dtype=bf16' --map x=hidden,y=out "
      "--contract 'acc=f32'\n"
      "  assay export 'softmax rows=4 cols=33' -b cpu -o case.safetensors && assay judge case.safetensors");
  command.callback([command, arguments, &exit_code] {
    arguments->contract_given = command.count("--contract") > 0;
    exit_code = judge(*arguments);
  });
}

}  // namespace assay
