#include "harness/cli/run_made.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/backend_names.hpp"
#include "harness/strangers.hpp"
#include "harness/suites.hpp"

namespace assay {
namespace {

// Of a job: the fastest plug-ins have fewer judged (reports/results/made_suite.md).
constexpr double kCasesPerSecond = 75;

}  // namespace

std::size_t cases_within(double budget_seconds, int jobs) {
  return static_cast<std::size_t>(std::clamp(kCasesPerSecond * jobs * budget_seconds, 1.0, 1e9));
}

bool are_strangers(const std::vector<std::string>& backends, const std::vector<BackendInfo>& known) {
  return !backends.empty() && std::ranges::all_of(backends, [&](const std::string& b) {
    const auto [name, options] = parse_backend(b, "--backend");
    const auto row = std::ranges::find(known, name, &BackendInfo::name);
    const bool is_file = name.find('/') != std::string::npos ||
                         (name == "python" && options.substr(0, options.find(',')).ends_with(".py"));
    return is_file || (row != known.end() && row->is_stranger);
  });
}

std::vector<std::string> judged_backends(const RunArguments& a, const std::vector<BackendInfo>& known) {
  std::vector<std::string> backends = a.plan.backends;
  if (backends.empty())
    for (const auto& b : known)
      if (b.is_default && b.not_built.empty()) backends.push_back(b.name);
  return backends;
}

MadeSuite suite_of(const RunArguments& a, bool generated, const std::vector<BackendInfo>& known,
                   const InputLists& lists, Workers& workers) {
  std::vector<std::string> words = a.words;
  std::erase(words, kStrangers);
  MadeSuite suite;
  if (!generated || !words.empty()) suite.lines = gather_lines(words, !a.plan.backends.empty());
  if (!generated) return suite;
  const auto backends = judged_backends(a, known);
  const auto factors = stranger_factors();
  for (const auto& backend : backends) {
    GeneratedSuite made = generate_suite(factors, {backend, a.plan.seed, a.most_made}, lists, workers);
    if (!a.detail.quiet && !a.list_only)
      fmt::print("{} takes {}: {} cases were made for it\n", backend,
                 made.ops.empty() ? "none of what the suite strangers asks"
                                  : fmt::format("{}", fmt::join(made.ops, ", ")),
                 made.lines.size());
    for (auto& line : made.lines) suite.lines.push_back(std::move(line));
  }
  return suite;
}

}  // namespace assay
