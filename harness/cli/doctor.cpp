// assay doctor: which backends and devices are here, why each missing one is missing, and what to install.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "harness/backends.hpp"
#include "harness/cli/commands.hpp"
#include "harness/suites.hpp"
#include "harness/worker/host_limits.hpp"
#include "harness/worker/worker.hpp"

namespace assay {
namespace {

void say(std::string_view state, const BackendInfo& backend, const std::string& why) {
  fmt::print("  {:<9} {:<10} {}\n", state, backend.name, why);
  if (!backend.install.empty()) fmt::print("            {:<10} to get it: {}\n", "", backend.install);
}

// As many as a line holds, and how many more there are.
std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t kWidth = 60;
  std::string text;
  std::size_t shown = 0;
  for (; shown < names.size() && text.size() + names[shown].size() < kWidth; ++shown)
    text += (shown == 0 ? "" : " ") + names[shown];
  if (shown < names.size()) text += fmt::format(" and {} more: assay doctor -v", names.size() - shown);
  return text;
}

int doctor(bool verbose) {
  fmt::print("assay {}\n  suites    {}\n", ASSAY_VERSION, suites_directory());
  const std::string& low = raise_host_limits();
  fmt::print("  limits    {}\n", host_limits());
  if (!low.empty()) fmt::print("  too low   {}\n", low);
  std::size_t usable = 0;
  for (const auto& b : known_backends()) {
    if (!b.not_built.empty()) {
      say("missing", b, b.not_built);
      continue;
    }
    Worker worker(worker_options({b, ""}));
    const auto opened = worker.open();
    if (const auto* refused = std::get_if<reply::Refused>(&opened)) {
      say("refused", b, refused->reason);
      continue;
    }
    const auto& here = std::get<reply::Opened>(opened);
    fmt::print("  ready     {:<10} {}\n", b.name, here.description);
    if (!here.variants.empty())
      fmt::print("            {:<10} variants: {}\n", "",
                 verbose ? fmt::format("{}", fmt::join(here.variants, " ")) : shortened(here.variants));
    ++usable;
  }
  if (usable == 0) fmt::print("no backend can run here\n");
  return usable > 0 ? kGreen : kCannotRun;
}

}  // namespace

void add_doctor(const Command& program, int& exit_code) {
  const Command command =
      program.subcommand("doctor", "Say which backends are here, and what the missing ones need");
  auto verbose = std::make_shared<bool>(false);
  command.flag("--verbose,-v", *verbose, "Name every variant");
  command.footer("Example:\n  assay doctor");
  command.callback([&exit_code, verbose] { exit_code = doctor(*verbose); });
}

}  // namespace assay
