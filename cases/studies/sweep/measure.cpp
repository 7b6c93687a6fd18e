#include "cases/studies/sweep/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "harness/budget.hpp"
#include "harness/call.hpp"
#include "harness/case_file.hpp"
#include "harness/suite_text.hpp"
#include "reports/file.hpp"

namespace assay::sweep {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(fmt::format("{}", x)); }

// The median limit in units of the root mean square of the truth: what error the proof would still allow.
double relative_limit(const Truth& truth) {
  std::vector<double> limits = truth.limit;
  const auto middle = limits.begin() + static_cast<std::ptrdiff_t>(limits.size() / 2);
  std::nth_element(limits.begin(), middle, limits.end());
  double squares = 0;
  for (const double x : truth.value) squares += x * x;
  return *middle / std::sqrt(squares / static_cast<double>(truth.value.size()));
}

// What the kernel's operands give without any further error: its declared conversions are kept, its sums and
// casts are not. (Of level=emu the value is what the declared unit computes, its own loss included.)
Contract without_sums(const std::string& declared, const Op& op) {
  std::string text = " " + declared + " ";
  for (const std::string_view key : {" level=", " order="})
    if (const std::size_t from = text.find(key); from != std::string::npos)
      text.replace(from, text.find(' ', from + 1) - from, key == " level=" ? " level=detap" : " order=any");
  return Contract::parse(trimmed(text), op.contract);
}

// One hexadecimal digit for four needles, the first in the highest bit: what a comparison of two nights
// pairs.
std::string bits_of(const Planted& planted, const Reading& reading) {
  std::string text;
  for (std::size_t n = 0; n < planted.needles.size(); n += 4) {
    unsigned digit = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const bool right =
          n + i < planted.needles.size() && reading.label[n + i] == planted.needles[n + i].label;
      digit = 2 * digit + (right ? 1U : 0U);
    }
    text += "0123456789abcdef"[digit];
  }
  return text;
}

std::size_t right_answers(const Planted& planted, const Reading& reading) {
  std::size_t right = 0;
  for (std::size_t n = 0; n < planted.needles.size(); ++n)
    right += reading.label[n] == planted.needles[n].label ? 1 : 0;
  return right;
}

// The cell's case with its data, in a file named after the cell.
std::string written_case(const std::string& folder, const Cell& cell, const Inputs& inputs,
                         const CaseResult& result, const std::vector<Truth>& truths) {
  CaseFile file;
  file.c = result.c, file.set = inputs.set, file.truths = truths;
  file.about = {{"contract", result.contract},
                {"path", result.expected_path},
                {"verdict", std::string(to_string(result.verdict.status))},
                {"summary", result.verdict.summary}};
  std::string name = cell.line();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '=') c = '_';
  constexpr std::size_t kLongestName = 200;  // file systems take 255 bytes
  const std::string path = fmt::format("{}/{}.safetensors", folder, name.substr(0, kLongestName));
  std::filesystem::create_directories(folder);
  write_report(path, print_case_file(file));
  return path;
}

}  // namespace

Json counts(const Planted& planted, const Reading& reading, std::int64_t keys) {
  std::array<std::array<int, 2>, kDepths> depth{};
  std::array<std::array<int, 2>, kRungs + 1> rung{};
  for (std::size_t n = 0; n < planted.needles.size(); ++n) {
    const Needle& needle = planted.needles[n];
    const int right = reading.label[n] == needle.label ? 1 : 0;
    for (auto* row : {&depth[static_cast<std::size_t>(needle.position * kDepths / keys)],
                      &rung[static_cast<std::size_t>(needle.rung)]}) {
      (*row)[0] += right;
      ++(*row)[1];
    }
  }
  Json j;
  j["depth"] = depth;
  Json rungs = Json::object();
  for (std::size_t r = 1; r < rung.size(); ++r)
    if (rung[r][1] > 0) rungs[fmt::format("{}", r)] = rung[r];
  if (!rungs.empty()) j["rungs"] = rungs;
  return j;
}

Json Measurer::measure(const Cell& cell) {
  const auto start = Clock::now();
  const Case c = cell.attention();
  Json j = {{"cell", cell.line()}, {"kind", "kernel"}};
  const double needed = bytes_needed(c);
  const auto end = [&](std::string_view verdict, const std::string& summary) {
    j["verdict"] = verdict;
    if (!summary.empty()) j["summary"] = summary;
    j["total_seconds"] = seconds_since(start);
    return j;
  };
  if (needed > memory_bytes_)
    return end("too_big", fmt::format("needs {}, there is {}", byte_text(needed), byte_text(memory_bytes_)));
  try {
    if (cell.inputs() != inputs_) {
      inputs_.clear();
      planted_ = plant(cell);
      truths_.emplace();
      inputs_ = cell.inputs();
    }
    std::vector<double> got;
    double kernel_seconds = 0;
    JudgeOptions options = options_;
    options.observe = [&](const RunResult& run) {
      if (auto outputs = decode_outputs(planted_->inputs, run.outputs); !outputs.empty()) got = outputs.at(0);
      if (!run.wall_ns.empty()) kernel_seconds = static_cast<double>(std::ranges::min(run.wall_ns)) * 1e-9;
    };
    const Judge judge{planted_->inputs, *truths_, workers_, options};
    const CaseResult result = judge.judge(c);
    std::size_t bytes = 0;
    for (const char* name : {"k", "v"})
      for (const Plane& plane : planted_->inputs.set.at(name).planes) bytes += plane.bytes.size();
    j["contract"] = result.contract;
    j["path"] = result.expected_path;
    if (!got.empty() && !result.contract.empty()) {
      const Truth& judged = judge.truths_of(result).at(0);
      const std::vector<double>& exact =
          truths_->of(c, planted_->inputs, without_sums(result.contract, *c.op)).at(0).value;
      const Reading reading = read_fingerprints(*planted_, got);
      const Fidelity f = fidelity(*planted_, got, exact);
      j["needles"] = planted_->needles.size();
      j["right"] = right_answers(*planted_, reading);
      // What a kernel without any error reads from the same operands: the rest is lost by the formats.
      j["right_exact"] = right_answers(*planted_, read_fingerprints(*planted_, exact));
      j.update(counts(*planted_, reading, cell.integer("len")));
      j["bits"] = bits_of(*planted_, reading);
      j["gain"] = number(f.gain);
      j["relative_error"] = number(f.relative_error);
      j["limit"] = number(relative_limit(judged));
      j["worst_ratio"] = number(result.verdict.worst_ratio);
    }
    j["kernel_seconds"] = kernel_seconds;
    j["bytes"] = bytes;
    if (kernel_seconds > 0) j["bytes_per_second"] = static_cast<double>(bytes) / kernel_seconds;
    j["reference_seconds"] = result.reference_seconds;
    constexpr std::size_t kLargestFile = std::size_t{60}
                                         << 20;  // a case file has 64 MiB at most, truths among them
    if (!keep_.empty() && !result.verdict.green() && !result.contract.empty() && bytes < kLargestFile)
      j["file"] = written_case(keep_, cell, planted_->inputs, result, judge.truths_of(result));
    return end(to_string(result.verdict.status), result.verdict.summary);
  } catch (const std::bad_alloc&) {
    inputs_.clear();
    return end("too_big", fmt::format("needs {}, and an allocation failed", byte_text(needed)));
  }
}

}  // namespace assay::sweep
