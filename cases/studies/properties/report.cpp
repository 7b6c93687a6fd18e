#include "cases/studies/properties/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/shell.hpp"

namespace assay::properties {

std::size_t values_of(const Steps& steps) {
  std::size_t n = 0;
  for (const Step& s : steps) n += s.values.size();
  return n;
}

std::string command_of(const PropertyResult& r, const std::string& backend, std::uint64_t seed) {
  const std::string command =
      fmt::format("assay properties -b {} --only {}", shell_quoted(backend), r.property->name);
  // What earlier draws left in the process is part of what was found: all of them again.
  if (r.history) return fmt::format("{} --seed {} --draws {}", command, seed, r.draws + r.refused);
  return fmt::format("{} --draw {}", command, shell_quoted(print(r.shrunk)));
}

std::string describe(const PropertyResult& r, const std::string& backend, std::uint64_t seed) {
  std::string text = fmt::format("{:9}  {:9}", to_string(r.outcome), r.property->name);
  if (r.outcome == Outcome::not_asked) return fmt::format("{}  {}\n", text, r.why);
  text += fmt::format("  {} draws, {:.1f} s", r.draws, r.seconds);
  if (r.refused > 0) text += fmt::format("; {} more were not taken", r.refused);
  if (r.outcome == Outcome::holds) return text + "\n";
  text += fmt::format("\n  says   {}\n  what   {}\n  case   {}\n", r.property->says, r.why, r.line);
  text += fmt::format("  draw   {}\n", print(r.shrunk));
  if (r.tried > 0)
    text += fmt::format("  shrunk from {} steps and {} values to {} and {}, in {} tries\n", r.found.size(),
                        values_of(r.found), r.shrunk.size(), values_of(r.shrunk), r.tried);
  if (r.history) text += "  only behind the draws before it: the kernel keeps something of earlier calls\n";
  return text + "  repro  " + command_of(r, backend, seed) + "\n";
}

std::string headline(const std::vector<PropertyResult>& results) {
  std::size_t asked = 0, broken = 0;
  for (const PropertyResult& r : results) {
    asked += r.outcome != Outcome::not_asked ? 1 : 0;
    broken += r.outcome == Outcome::broken ? 1 : 0;
  }
  if (asked == 0) return "nothing was judged";
  return fmt::format("{} of {} properties hold{}{}", asked - broken, asked,
                     broken > 0 ? fmt::format(", {} broken", broken) : "",
                     asked < results.size() ? fmt::format("; {} not asked", results.size() - asked) : "");
}

std::string as_json(const std::vector<PropertyResult>& results, const std::string& backend,
                    const Effort& effort, bool complete) {
  nlohmann::json list = nlohmann::json::array();
  for (const PropertyResult& r : results) {
    nlohmann::json row = {{"property", r.property->name},
                          {"outcome", to_string(r.outcome)},
                          {"draws", r.draws},
                          {"refused", r.refused},
                          {"seconds", r.seconds},
                          {"why", r.why}};
    if (r.outcome == Outcome::broken)
      row.update({{"case", r.line},
                  {"found", print(r.found)},
                  {"draw", print(r.shrunk)},
                  {"tried", r.tried},
                  {"history", r.history},
                  {"command", command_of(r, backend, effort.seed)}});
    list.push_back(std::move(row));
  }
  const nlohmann::json report = {{"schema", "assay-properties"}, {"version", 1},
                                 {"backend", backend},           {"seed", effort.seed},
                                 {"draws", effort.draws},        {"complete", complete},
                                 {"results", std::move(list)}};
  return report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace assay::properties
