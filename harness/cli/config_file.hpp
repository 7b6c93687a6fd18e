// assay.toml: options of a project that are the same each time.
//
//   [run]
//   cases = ["norms", "attention heads=4 d=64 len=512 kv=f16,q8_0"]
//   backend = ["./build/mine.so"]
//   budget = 60
//   expected = "known.list"
//
// A section is a subcommand, a key one of its long options or positional arguments. The command line comes
// first.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace assay {

struct ConfigOption {
  std::string section, key;
  std::vector<std::string> values;  // one for a value that is no list; "true" or "false" for a flag
  std::string where;                // "assay.toml:3"
};

// The options of a file in TOML. Throws InputError with file and line: a text that is no TOML, a key outside
// of a section, a value that is neither a text, a number, true, false, nor a list of such.
std::vector<ConfigOption> read_config(std::istream& text, const std::string& file);

}  // namespace assay
