// The mutants that the generator wrote, and those of them that are excused: their outputs are those of the
// correct kernel, or keep its contract.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::mutants {

// A row of mutants.json, as the generator wrote it.
struct Manifest {
  int id;
  std::string file;
  int line;
  std::string kind, before, after, text;
};
// Throws InputError that names the row for one that lacks something, has another type, or repeats an id.
std::vector<Manifest> parse_manifest(std::string_view text, const std::string& where);
std::vector<Manifest> read_manifest(const std::string& path);

// "FILE @ SOURCE LINE @ BEFORE -> AFTER @ COUNT @ REASON": independent of line numbers, so that an edit
// elsewhere keeps it. The source line stands as it is in the file; in the change * stands for any text. COUNT
// is the number of mutants that the row matches, all of which it excuses; or "2/4": it excuses the second of
// the four that it matches.
struct Excuse {
  std::string file, text, change;
  std::size_t count = 0, which = 0;  // which: counted from 1; 0 for all
  std::string reason;
  std::string where;  // "kill_table_equivalent.list:12"
};
// Throws InputError for a line that is none of these, and for one whose change is nothing but *.
std::vector<Excuse> parse_excuses(std::string_view text, const std::string& where);
std::vector<Excuse> read_excuses(const std::string& path);

// What a list excuses among these mutants, and what is wrong with it, in words: rows that match more mutants
// than they state (too wide) or fewer (stale), and mutants that two rows excuse. Points into the list.
struct Excused {
  std::map<int, const Excuse*> by_id;
  std::vector<std::string> faults;
  const Excuse* find(int id) const {
    const auto found = by_id.find(id);
    return found == by_id.end() ? nullptr : found->second;
  }
};
// Whether a text is the pattern, in which * stands for any run of characters: in time of the product of both
// lengths.
bool matches(std::string_view pattern, std::string_view text);
Excused excused(std::span<const Excuse> list, std::span<const Manifest> mutants);
// What is wrong with a row that excuses a mutant which something kills.
std::string killed_after_all(const Excuse& e, const Manifest& m, const std::string& by);

}  // namespace assay::mutants
