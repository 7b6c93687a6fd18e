// The lists of the kill table: the excuses up to the first "[", the mutants from there on; and the pattern of
// a change.
#include "cases/studies/mutants/mutant_list.hpp"

#include <vector>

#include "harness/fuzz/fuzz.hpp"

namespace {

using assay::fuzz::require;

// What matches() claims, by the definition: can[t] says whether the pattern so far is the first t characters.
bool matches_by_definition(std::string_view pattern, std::string_view text) {
  std::vector<bool> can(text.size() + 1, false);
  can[0] = true;
  for (const char p : pattern) {
    std::vector<bool> next(can.size(), false);
    for (std::size_t t = 0; t < can.size(); ++t)
      next[t] = p == '*' ? can[t] || (t > 0 && next[t - 1]) : t > 0 && can[t - 1] && text[t - 1] == p;
    can = next;
  }
  return can.back();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay::mutants;
  const std::string_view text = assay::fuzz::text_of(data, size);
  const std::size_t list = std::min(text.find('['), text.size());
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::string_view pattern = text.substr(0, line), rest = text.substr(line);
  require(matches(pattern, rest) == matches_by_definition(pattern, rest),
          "a pattern matches by its definition", text);
  require(matches(pattern, pattern), "a pattern matches itself", pattern);

  std::vector<Excuse> excuses;
  std::vector<Manifest> mutants;
  const bool read_excuses =
      assay::fuzz::accepted("here", [&] { excuses = parse_excuses(text.substr(0, list), "here"); });
  const bool read_mutants =
      assay::fuzz::accepted("there", [&] { mutants = parse_manifest(text.substr(list), "there"); });
  for (const Excuse& e : excuses)
    require(e.count > 0 && e.which <= e.count, "an excuse states a count", e.where);
  for (const Manifest& m : mutants) require(m.id > 0 && m.line > 0, "a mutant stands in a line", m.file);
  if (!read_excuses || !read_mutants) return 0;
  const Excused found = excused(excuses, mutants);
  require(found.by_id.size() <= mutants.size(), "no more are excused than there are");
  // A list without a fault excuses as many as its rows say.
  std::size_t stated = 0;
  for (const Excuse& e : excuses) stated += e.which != 0 ? 1 : e.count;
  if (found.faults.empty()) require(found.by_id.size() == stated, "as many are excused as is stated");
  return 0;
}
