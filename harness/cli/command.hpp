// Command lines. Only command.cpp includes CLI11, whose headers cost every file that does ten seconds of a
// build.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace assay {

// What is asked of an option beyond its names, its value and its help.
struct OptionRules {
  bool required = false;
  // A list in one word, and how it is taken apart; the next word is not its own.
  std::vector<std::string> (*split)(const std::string&) = nullptr;
  double low = 0, high = 0;  // the range of a number; equal: any
  std::string shown = {};    // the default that the help shows
};

// A program, or one of its subcommands; a handle, which is copied freely.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command subcommand(const std::string& name, const std::string& help) const;
  // A subcommand whose words are all its own, listed under a heading.
  Command passed_on(const std::string& name, const std::string& help, const std::string& heading) const;
  void option(const std::string& names, std::string& value, const std::string& help,
              const OptionRules& rules = {}) const;
  void option(const std::string& names, std::vector<std::string>& value, const std::string& help,
              const OptionRules& rules = {}) const;
  void option(const std::string& names, int& value, const std::string& help,
              const OptionRules& rules = {}) const;
  void option(const std::string& names, std::uint64_t& value, const std::string& help,
              const OptionRules& rules = {}) const;
  void option(const std::string& names, double& value, const std::string& help,
              const OptionRules& rules = {}) const;
  void flag(const std::string& names, bool& value, const std::string& help) const;
  std::size_t count(const std::string& name) const;  // how often it was given, here or in assay.toml
  bool is_typed(const std::string& name) const;      // on the command line itself
  void footer(const std::string& text) const;        // stands below the help
  void callback(std::function<void()> run) const;

 private:
  CLI::App* app_;
};

// Runs a program of subcommands, which `add` adds, as run_program() does (harness/cli/program.hpp).
// `version` is what --version prints. Options that are not typed are taken from assay.toml in the working
// folder, or from the file of --config (harness/cli/config_file.hpp).
int run_commands(const std::string& name, const std::string& what, const std::string& footer,
                 const std::string& version, int argc, char** argv, int& exit_code,
                 const std::function<void(const Command&)>& add);

}  // namespace assay
