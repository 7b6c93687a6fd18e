#include "cases/studies/identify/answers.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>

#include "reference/error.hpp"
#include "reference/fingerprint.hpp"
#include "reference/ordinary_file.hpp"

namespace assay {
namespace {

constexpr std::size_t kDigits = 8;  // of an output

// Over the names and bytes of all planes.
std::string digest(const Inputs& inputs) {
  Fingerprint all;
  for (const auto& [name, tensor] : inputs.set) {
    all.add(name);
    for (const Plane& plane : tensor.planes) all.add(plane.bytes.data(), plane.bytes.size());
  }
  return all.hex();
}

std::string key_of(const std::string& line, const std::string& inputs) { return line + "\n" + inputs; }

std::string hexadecimal(const std::vector<double>& got) {
  std::string text;
  for (const double x : got)
    text += fmt::format("{:08x}", std::bit_cast<std::uint32_t>(static_cast<float>(x)));
  return text;
}

std::vector<double> outputs_of(const std::string& text) {
  std::vector<double> got;
  for (std::size_t at = 0; at + kDigits <= text.size(); at += kDigits) {
    std::uint32_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + kDigits, bits, 16);
    if (error != std::errc() || end != text.data() + at + kDigits) break;
    got.push_back(static_cast<double>(std::bit_cast<float>(bits)));
  }
  if (got.size() * kDigits != text.size())
    throw InputError(InputErrorKind::bad_value, "outputs; wanted: eight hexadecimal digits each");
  return got;
}

}  // namespace

AnswerFile::AnswerFile(const std::string& path, Mode mode) : path_(path), mode_(mode) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(InputErrorKind::bad_value, fmt::format("answers {}: {}", path, what));
  };
  if (mode == Mode::write) {
    out_.open(path);
    if (!out_) refuse("cannot be written");
    return;
  }
  if (const std::string_view why = why_no_file(path); !why.empty())
    refuse(fmt::format("cannot be read: {}; wanted: a file that --record wrote", why));
  std::ifstream in(path);
  if (!in) refuse("cannot be read; wanted: a file that --record wrote");
  std::size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    try {
      const nlohmann::json line = nlohmann::json::parse(text);
      std::optional<KernelAnswer> answer;
      if (line.contains("got"))
        answer = KernelAnswer{outputs_of(line.at("got").get<std::string>()), line.at("contract"),
                              line.at("path"), line.at("kernels")};
      answers_[key_of(line.at("case"), line.at("inputs"))] = std::move(answer);
    } catch (const nlohmann::json::exception& e) {
      refuse(fmt::format("line {}: {}", number, e.what()));
    } catch (const InputError& e) {
      refuse(fmt::format("line {}: {}", number, e.what()));
    }
  }
}

bool AnswerFile::has(const Case& c, const Inputs& inputs) const {
  return answers_.contains(key_of(c.line(), digest(inputs)));
}

std::optional<KernelAnswer> AnswerFile::find(const Case& c, const Inputs& inputs) const {
  const auto at = answers_.find(key_of(c.line(), digest(inputs)));
  if (at == answers_.end())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("answers {}: no answer to '{}' on these inputs among its {}; --record asks the kernel",
                    path_, c.line(), answers_.size()));
  return at->second;
}

void AnswerFile::add(const Case& c, const Inputs& inputs, const std::optional<KernelAnswer>& answer) {
  nlohmann::ordered_json line = {{"case", c.line()}, {"inputs", digest(inputs)}};
  if (answer) {
    line["contract"] = answer->contract, line["path"] = answer->path, line["kernels"] = answer->kernels;
    line["got"] = hexadecimal(answer->got);
  }
  out_ << line.dump() << "\n" << std::flush;
  if (!out_) throw std::runtime_error(fmt::format("answers {}: cannot be written to the end", path_));
}

}  // namespace assay
