// assay list: the rows of every list.
#include <fmt/format.h>

#include <functional>

#include "harness/backends.hpp"
#include "harness/cli/commands.hpp"
#include "harness/strangers.hpp"
#include "harness/suites.hpp"
#include "harness/verdict.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/formats/format.hpp"
#include "reference/inputs/fault.hpp"
#include "reference/inputs/fill.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

void list_ops(const InputLists&) {
  for (const Op* o : every_op()) fmt::print("{:<16} {}\n", o->name, o->formula);
}
void list_formats(const InputLists&) {
  for (const auto& f : formats())
    fmt::print("{:<18} {:>7.4g} bits/element  {}\n", f.name, f.bits_per_element, f.note);
}
void list_units(const InputLists&) {
  for (const auto& u : matrix_units())
    fmt::print("{:<26} {:<10} {}\n", u.name, to_string(u.standing), u.source);
}
void list_fills(const InputLists& lists) {
  for (const auto& f : lists.fills)
    fmt::print("{:<18} {:<10} {}\n", f.name, f.op.empty() ? "any" : f.op, f.shows);
}
void list_faults(const InputLists& lists) {
  for (const auto& f : lists.faults)
    fmt::print("{:<22} {:<10} {:<8} {:<26} {}: {}; {}\n", f.name, to_string(f.kind), to_string(f.requirement),
               f.ops.empty() ? "any" : f.ops, f.site, f.injects, f.owes);
}
void list_backends(const InputLists&) {
  for (const auto& b : known_backends())
    fmt::print("{:<12} {}\n", b.name, b.not_built.empty() ? b.file : "not built: " + b.not_built);
}
void list_suites(const InputLists&) {
  for (const auto& names : {suite_names(), further_suite_names()})
    for (const auto& name : names) fmt::print("{:<28} {}\n", name, suite_purpose(suite_file(name)));
  fmt::print("{:<28} {}\n", kStrangers, stranger_purpose());
}
void list_verdicts(const InputLists&) {
  for (const auto& s : kStatuses) {
    fmt::print("{:<17} {}\n", s.name, s.meaning);
    if (s.status != Status::pass) fmt::print("{:<17}   -> {}\n", "", s.what_to_do);
  }
}
void list_known(const InputLists&) {
  for (const auto& e : expectations())
    fmt::print("{:<16} {}\n{:<16}   -> {}\n", e.verdicts(), e.set.print(), "", e.reason);
}

struct Kind {
  std::string_view name;
  void (*print)(const InputLists&);
};
constexpr Kind kKinds[] = {{"ops", list_ops},       {"formats", list_formats},   {"units", list_units},
                           {"fills", list_fills},   {"faults", list_faults},     {"backends", list_backends},
                           {"suites", list_suites}, {"verdicts", list_verdicts}, {"known", list_known}};

}  // namespace

void add_list(const Command& program, int& exit_code, const InputLists& lists) {
  auto what = std::make_shared<std::string>();
  const Command command = program.subcommand(
      "list", "List ops, formats, units, fills, faults, backends, suites, verdicts or known findings");
  command.option("what", *what,
                 "ops | formats | units | fills | faults | backends | suites | verdicts | known",
                 {.required = true});
  command.footer(
      "Examples:\n"
      "  assay list verdicts    what each verdict means, and what to do about it\n"
      "  assay list known       what runs are known to find, and why");
  command.callback([what, &exit_code, lists] {
    std::vector<std::string> names;
    for (const auto& kind : kKinds) {
      if (kind.name == *what) {
        kind.print(lists);
        exit_code = kGreen;
        return;
      }
      names.emplace_back(kind.name);
    }
    throw unknown_name("list", *what, names);
  });
}

}  // namespace assay
