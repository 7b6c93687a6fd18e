// Names of backends: any text can be a path in a case, and what was split is split again into the same.
#include "harness/backend_names.hpp"

#include "harness/fuzz/fuzz.hpp"

namespace {

using namespace assay;
using fuzz::require;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

void check_list(const std::vector<std::string>& names) {
  const std::string text = joined(names);
  for (const auto& name : names) {
    require(name.find_first_of(" \t\n'\"#\\") == std::string::npos, "a name stands in a line", name);
    const BackendName parts = parse_backend(name, "here");
    require(!parts.name.empty(), "a name is not empty", name);
    // The path and the options, taken apart and put together.
    const std::string path = name.substr(0, name.find(':'));
    if (!name.starts_with('!')) require(escaped_path(parts.name) == path, "a path has one spelling", name);
  }
  require(split_backends(text) == names, "a list is read as itself", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  std::vector<std::string> names;
  if (fuzz::accepted("here", [&] { names = split_backends(text, "here"); })) check_list(names);
  if (fuzz::accepted("--backend",
                     [&] { names = typed_backends(text, [](const std::string&) { return false; }); }))
    check_list(names);
  if (text.empty() || text.find('\0') != std::string::npos) return 0;
  const std::string path = "./" + text;
  require(unescaped(escaped_path(path), "here") == path, "an escaped path is the path", path);
  require(unescaped(escaped_text(text), "here") == text, "an escaped text is the text", text);
  require(spelt_variant(escaped_text(text), "here") == escaped_text(text), "an escaped text is spelt so",
          text);
  const auto one = split_backends(escaped_path(path), "here");
  require(one.size() == 1 && parse_backend(one[0], "here").name == path, "an escaped path is one backend",
          path);
  const auto typed = typed_backends(path, [&](const std::string& file) { return file == path; });
  require(typed == one, "the path of a file may be typed as it is", path);
  const auto two =
      typed_backends(path + ":x=1,y=2,cpu", [&](const std::string& file) { return file == path; });
  require(two == std::vector<std::string>{one[0] + ":x=1,y=2", "cpu"}, "so it may with options behind it",
          path);
  return 0;
}
