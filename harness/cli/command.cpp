#include "harness/cli/command.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>

#include "harness/cli/config_file.hpp"
#include "harness/cli/program.hpp"
#include "harness/worker/host_limits.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr const char* kConfig = "assay.toml";

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

// Options whose values a file gave.
std::set<const CLI::Option*>& taken_from_file() {
  static std::set<const CLI::Option*> options;
  return options;
}

// What CLI11 reads a file of options by: assay.toml as the program's options, each known and each where it
// belongs.
class ConfigFile : public CLI::Config {
 public:
  explicit ConfigFile(CLI::App& app) : app_(&app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> taken;
    for (ConfigOption& given : read_config(input, app_->get_config_ptr()->as<std::string>())) {
      const CLI::Option* option = find(given);
      if (option->count() > 0) continue;  // typed
      if (option->get_expected_min() == 0 && given.values == std::vector<std::string>{"false"}) continue;
      taken_from_file().insert(option);
      taken.push_back({{given.section}, given.key, std::move(given.values)});
    }
    return taken;
  }

 private:
  const CLI::Option* find(const ConfigOption& given) const {
    const CLI::App* section = nullptr;
    std::vector<std::string> known;
    for (const CLI::App* sub : app_->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_name() == given.section) section = sub;
      known.push_back(sub->get_name());
    }
    if (section == nullptr)
      refuse(given, fmt::format("no subcommand '{}'", given.section), given.section, known);
    known.clear();
    for (const CLI::Option* option : section->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back(name);
      if (option->get_lnames().empty()) known.push_back(option->get_name());
    }
    std::erase(known, "help");
    if (std::ranges::find(known, given.key) == known.end())
      refuse(given, fmt::format("assay {} has no option '{}'", given.section, given.key), given.key, known);
    const CLI::Option* named = section->get_option_no_throw("--" + given.key);
    return named != nullptr ? named : section->get_option_no_throw(given.key);
  }
  [[noreturn]] static void refuse(const ConfigOption& given, const std::string& why, const std::string& name,
                                  const std::vector<std::string>& known) {
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("{}: {}; {}", given.where, why, suggest(name, known)));
  }

  CLI::App* app_;
};

// CLI11 reads what is a file, waits for what a pipe gives, and says nothing of kConfig where it is there and
// cannot be read.
void refuse_odd_config(int argc, char** argv) {
  std::string file = kConfig;
  bool named = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--config")) continue;
    named = true;
    file = word.starts_with("--config=") ? argv[i] + 9 : i + 1 < argc ? argv[i + 1] : "";
  }
  struct stat found{};
  if (file.empty() || lstat(file.c_str(), &found) != 0) return;
  std::string why;
  if (stat(file.c_str(), &found) != 0 || (S_ISREG(found.st_mode) && access(file.c_str(), R_OK) != 0))
    why = std::strerror(errno);
  else if (!S_ISREG(found.st_mode))
    why = "it is no ordinary file";
  if (why.empty()) return;
  complain(fmt::format("{}{} cannot be read: {}", file, named ? "" : " of this folder", why));
  std::exit(kUsage);
}

// "no command 'runn'; did you mean 'run'? ..." of a first word that is none; "".
std::string no_such_command(const CLI::App& app, int argc, char** argv) {
  int first = 1;
  while (first < argc && argv[first][0] == '-') first += std::string_view(argv[first]) == "--config" ? 2 : 1;
  if (first >= argc) return "";
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string_view word = argv[1];
  if (word.starts_with('-') &&
      app.get_option_no_throw(std::string(word.substr(0, word.find('=')))) == nullptr)
    return fmt::format("{}: an option stands behind its command, as in: {} {} {}", excerpt(word),
                       app.get_name(), names.front(), excerpt(word));
  if (std::ranges::find(names, argv[first]) != names.end()) return "";
  if (const std::string option = fmt::format("--{}", argv[first]); app.get_option_no_throw(option) != nullptr)
    return fmt::format("no command '{}'; did you mean '{}'?", argv[first], option);
  return fmt::format("no command '{}'; {}", excerpt(argv[first]), suggest(argv[first], names));
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
bool Command::is_typed(const std::string& name) const {
  return app_->count(name) > 0 && !taken_from_file().contains(app_->get_option(name));
}
void Command::footer(const std::string& text) const { app_->footer(text); }
void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }

int run_commands(const std::string& name, const std::string& what, const std::string& footer,
                 const std::string& version, int argc, char** argv, int& exit_code,
                 const std::function<void(const Command&)>& add) {
  if (!has_proc()) return kCannotRun;
  raise_host_limits();  // where that is not enough, whoever starts a worker says so
  CLI::App app{what};
  app.name(name);
  refuse_odd_config(argc, argv);
  app.require_subcommand(1);
  app.set_version_flag("--version", version);
  app.footer(footer);
  app.set_config("--config", kConfig,
                 "Options of the subcommands, which those that are typed replace; '': none");
  app.config_formatter(std::make_shared<ConfigFile>(app));
  add(Command(app));
  if (const std::string why = no_such_command(app, argc, argv); !why.empty()) {
    complain(why);
    return kUsage;
  }
  return run_program(app, argc, argv, exit_code);
}

}  // namespace assay
