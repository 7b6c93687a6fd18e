// What assay-silicon and assay-vectors do around their command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "reference/error.hpp"

namespace assay::silicon {

inline constexpr int kWrongUsage = 2, kNoDevice = 77;  // exit codes; ctest takes the second for skipped

// Parses the command line and returns what `act` does: 2 for one that is wrong and, with its text on stderr,
// for whatever is thrown.
template <class Act>
int run_program(const char* name, CLI::App& app, int argc, char** argv, Act act) {
  try {
    app.parse(argc, argv);
    return act();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUsage;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    return kWrongUsage;
  }
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) throw InputError(InputErrorKind::bad_value, "cannot write " + path);
  fmt::print("wrote {}\n", path);
}

}  // namespace assay::silicon
