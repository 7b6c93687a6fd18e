// A list of expectations: what was read can be written, and is read as itself.
#include "harness/expectations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  std::vector<Expectation> list;
  if (!fuzz::accepted("here:", [&] { list = parse_expectations(fuzz::text_of(data, size), "here"); }))
    return 0;
  for (const Expectation& e : list) {
    require(!e.reason.empty(), "an expectation has its reason");
    require(std::ranges::find(e.statuses, Status::pass) == e.statuses.end(), "nobody expects a pass");
    const std::string line = fmt::format("{} {} # {}", e.verdicts(), e.set.print(), e.reason);
    const auto again = parse_expectations(line, "again");
    require(again.size() == 1 && again[0].statuses == e.statuses && again[0].set == e.set &&
                again[0].reason == e.reason,
            "a printed expectation is read as itself", line);
  }
  return 0;
}
