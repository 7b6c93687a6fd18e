#include "harness/cli/command.hpp"

#include <fmt/format.h>

#include <charconv>

#include "harness/cli/program.hpp"

namespace assay {
namespace {

void apply(CLI::Option* option, const OptionRules& rules) {
  if (rules.required) option->required();
  if (!rules.shown.empty()) option->default_str(rules.shown);
}

template <typename Number>
void add_number(CLI::App& app, const std::string& names, Number& value, const std::string& help,
                const OptionRules& rules) {
  CLI::Option* option = app.add_option(names, value, help);
  apply(option, rules);
  if (rules.low == rules.high) return;
  // In positive logic: a NaN lies in no range.
  const auto in_range = [rules](const std::string& text) {
    Number number{};
    const bool ok = CLI::detail::lexical_cast(text, number) && static_cast<double>(number) >= rules.low &&
                    static_cast<double>(number) <= rules.high;
    return ok ? std::string() : fmt::format("{}: allowed: {}..{}", text, rules.low, rules.high);
  };
  option->check(CLI::Validator(in_range, fmt::format("in [{} - {}]", rules.low, rules.high)));
}

}  // namespace

Command Command::subcommand(const std::string& name, const std::string& help) const {
  return Command(*app_->add_subcommand(name, help));
}
Command Command::passed_on(const std::string& name, const std::string& help,
                           const std::string& heading) const {
  CLI::App* app = app_->add_subcommand(name, help)->group(heading);
  app->prefix_command()->set_help_flag();
  return Command(*app);
}
void Command::option(const std::string& names, std::string& value, const std::string& help,
                     const OptionRules& rules) const {
  apply(app_->add_option(names, value, help), rules);
}
void Command::option(const std::string& names, std::vector<std::string>& value, const std::string& help,
                     const OptionRules& rules) const {
  if (rules.split == nullptr) {
    apply(app_->add_option(names, value, help), rules);
    return;
  }
  const auto add = [&value, split = rules.split](const std::vector<std::string>& given) {
    for (const auto& text : given)
      for (auto& name : split(text)) value.push_back(std::move(name));
  };
  CLI::Option* option = app_->add_option_function<std::vector<std::string>>(names, add, help);
  option->allow_extra_args(false);
  apply(option, rules);
}
void Command::option(const std::string& names, int& value, const std::string& help,
                     const OptionRules& rules) const {
  add_number(*app_, names, value, help, rules);
}
void Command::option(const std::string& names, std::uint64_t& value, const std::string& help,
                     const OptionRules& rules) const {
  const auto set = [&value, names](const std::string& text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size())
      throw CLI::ValidationError(names, fmt::format("{}: allowed: 0..18446744073709551615", text));
    value = number;
  };
  apply(app_->add_option_function<std::string>(names, set, help), rules);
}
void Command::option(const std::string& names, double& value, const std::string& help,
                     const OptionRules& rules) const {
  add_number(*app_, names, value, help, rules);
}
void Command::flag(const std::string& names, bool& value, const std::string& help) const {
  app_->add_flag(names, value, help);
}
std::size_t Command::count(const std::string& name) const { return app_->count(name); }
void Command::footer(const std::string& text) const { app_->footer(text); }
void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }

int run_commands(const std::string& name, const std::string& what, const std::string& footer,
                 const std::string& version, int argc, char** argv, int& exit_code,
                 const std::function<void(const Command&)>& add) {
  CLI::App app{what};
  app.name(name);
  app.require_subcommand(1);
  app.set_version_flag("--version", version);
  app.footer(footer);
  add(Command(app));
  return run_program(app, argc, argv, exit_code);
}

}  // namespace assay
