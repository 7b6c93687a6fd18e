// backends.json: a backend that was accepted can be named in a case, and by no other row.
#include <set>

#include "harness/backend_names.hpp"
#include "harness/backends.hpp"
#include "harness/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  std::vector<BackendRow> rows;
  if (!fuzz::accepted("here", [&] { rows = parse_backend_list(fuzz::text_of(data, size), "here"); }))
    return 0;
  std::set<std::string> names;
  for (const BackendRow& row : rows) {
    const BackendInfo& b = row.info;
    require(split_backends(b.name) == std::vector<std::string>{b.name}, "a case can name it", b.name);
    require(parse_backend(b.name, "here").name == b.name, "its name is no escape", b.name);
    require(names.insert(b.name).second, "a name stands for one backend", b.name);
    require(b.not_built.empty() != b.file.empty(), "a backend has a file or a reason", b.name);
    require(b.alignment <= (1U << 20), "an alignment is bounded", b.name);
    require((b.file + row.worker + b.witness).find('\0') == std::string::npos, "a path has no end in it");
  }
  return 0;
}
