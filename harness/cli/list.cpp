// assay list: the rows of every list.
#include <fmt/format.h>

#include <functional>

#include "harness/backends.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/sources.hpp"
#include "harness/fault.hpp"
#include "harness/fill.hpp"
#include "harness/near_names.hpp"
#include "harness/verdict.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/formats/format.hpp"

namespace assay {
namespace {

void list_ops() {
  for (const auto& o : ops()) fmt::print("{:<12} {}\n", o.name, o.formula);
}
void list_formats() {
  for (const auto& f : formats())
    fmt::print("{:<18} {:>7.4g} bits/element  {}\n", f.name, f.bits_per_element, f.note);
}
void list_units() {
  for (const auto& u : matrix_units()) fmt::print("{:<22} {}\n", u.name, u.source);
}
void list_fills() {
  for (const auto& f : fills())
    fmt::print("{:<18} {:<10} {}\n", f.name, f.op.empty() ? "any" : f.op, f.shows);
}
void list_faults() {
  for (const auto& f : faults())
    fmt::print("{:<22} {:<10} {:<8} {:<26} {}: {}; {}\n", f.name, to_string(f.kind), to_string(f.duty),
               f.ops.empty() ? "any" : f.ops, f.site, f.injects, f.owes);
}
void list_backends() {
  for (const auto& b : known_backends())
    fmt::print("{:<12} {}\n", b.name, b.not_built.empty() ? b.file : "not built: " + b.not_built);
}
void list_suites() {
  for (const auto& name : suite_names()) fmt::print("{}\n", name);
}
void list_verdicts() {
  for (const auto name : kStatusNames) fmt::print("{}\n", name);
}

struct Kind {
  std::string_view name;
  void (*print)();
};
constexpr Kind kKinds[] = {{"ops", list_ops},       {"formats", list_formats},  {"units", list_units},
                           {"fills", list_fills},   {"faults", list_faults},    {"backends", list_backends},
                           {"suites", list_suites}, {"verdicts", list_verdicts}};

}  // namespace

void add_list(CLI::App& app, int& exit_code) {
  auto what = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("list", "List ops, formats, units, fills, faults, backends, suites or verdicts");
  command->add_option("what", *what, "ops | formats | units | fills | faults | backends | suites | verdicts")
      ->required();
  command->callback([what, &exit_code] {
    std::vector<std::string> names;
    for (const auto& kind : kKinds) {
      if (kind.name == *what) {
        kind.print();
        exit_code = kGreen;
        return;
      }
      names.emplace_back(kind.name);
    }
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("no list '{}'; {}", *what, suggest(*what, names)));
  });
}

}  // namespace assay
