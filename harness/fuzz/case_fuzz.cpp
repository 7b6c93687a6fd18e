// A case line: parsed, multiplied out, printed. Printing is the inverse of parsing, for the line and for each
// of its cases.
#include "harness/case.hpp"
#include "harness/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  CaseSet set;
  if (!fuzz::accepted("here:1", [&] { set = parse_case(fuzz::text_of(data, size), "here:1"); })) return 0;
  const std::string printed = set.print();
  require(parse_case(printed) == set, "a printed set is read as itself", printed);
  if (case_count(set) > 16) return 0;  // slow, and no other than fewer
  std::vector<Case> cases;
  if (!fuzz::accepted("here:1", [&] { cases = expand(set, "here:1"); })) return 0;
  require(cases.size() == case_count(set), "a set has as many cases as it says", printed);
  for (const Case& c : cases) {
    const std::string line = c.line();
    for (const char byte : line)
      require(byte >= 0x20 && byte < 0x7F && byte != '\'', "a line stands between single quotes", line);
    const CaseSet own = parse_case(line);
    const std::vector<Case> again = expand(own);
    require(again.size() == 1, "a line of one case is one case", line);
    require(again[0].line() == line, "a printed case is printed as itself", line);
    require(again[0].attributes.all() == c.attributes.all() && again[0].seed == c.seed &&
                again[0].backend == c.backend && again[0].variant == c.variant && again[0].after == c.after &&
                again[0].fill == c.fill && again[0].fault == c.fault && again[0].layout == c.layout,
            "a printed case is read as itself", line);
    require(matches(own, c), "a case lies in the set of its own line", line);
    std::int64_t elements = 0;
    for (const TensorSpec& t : c.op->tensors(c.attributes))
      require(!__builtin_add_overflow(elements, element_count(t.shape), &elements) && elements >= 0,
              "the elements of an accepted case can be counted", line);
  }
  return 0;
}
