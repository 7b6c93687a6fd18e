// A case file: its lines have no comment, no end and no continuation in them, and written one by one they are
// the same.
#include "harness/fuzz/fuzz.hpp"
#include "harness/suite_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  std::vector<SuiteLine> lines;
  if (!fuzz::accepted("here:", [&] { lines = parse_suite(fuzz::text_of(data, size), "here"); })) return 0;
  require(!lines.empty(), "a suite has a line");
  std::string text;
  bool can_be_written = true;
  for (const SuiteLine& line : lines) {
    require(line.text.find_first_of("#\n") == std::string::npos, "a line is one, without its comment",
            line.text);
    require(!trimmed(line.text).empty(), "a line has text", line.text);
    require(line.where.starts_with("here:"), "a line says where it is", line.where);
    can_be_written = can_be_written && !trimmed(line.text).ends_with('\\');
    text += line.text + "\n";
  }
  if (!can_be_written) return 0;  // \\ at an end is a backslash and a continuation
  const auto again = parse_suite(text, "again");
  require(again.size() == lines.size(), "as many lines are read again", text);
  for (std::size_t i = 0; i < lines.size(); ++i)
    require(trimmed(again[i].text) == trimmed(lines[i].text), "a line is read as itself", lines[i].text);
  return 0;
}
