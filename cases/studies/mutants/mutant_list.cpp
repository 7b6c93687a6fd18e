#include "cases/studies/mutants/mutant_list.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string_view>

#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay::mutants {
namespace {

bool excuses(const Excuse& e, const Manifest& m) {
  return e.file == m.file && e.text == m.text && matches(e.change, m.before + " -> " + m.after);
}

// "3", "2/4"; false for anything else.
bool read_count(std::string_view text, Excuse& e) {
  const auto number = [&](std::size_t& to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc() && to > 0;
  };
  if (!number(e.count)) return false;
  if (text.empty()) return true;
  e.which = e.count;
  if (text.front() != '/') return false;
  text.remove_prefix(1);
  return number(e.count) && text.empty() && e.which <= e.count;
}

std::string named(const Manifest& m) {
  return fmt::format("mutant {} ({}:{}, {} -> {})", m.id, m.file, m.line, m.before, m.after);
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  // The last star alone is ever stretched: what it takes, an earlier one need not.
  std::size_t p = 0, t = 0, star = std::string_view::npos, behind = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<Manifest> parse_manifest(std::string_view text, const std::string& where) {
  constexpr std::int64_t kMost = INT32_MAX;
  std::vector<Manifest> list;
  std::set<int> ids;
  for (const JsonRow& row : parse_json_list(text, where)) {
    const auto id = static_cast<int>(row.integer("id", 1, kMost));
    if (!ids.insert(id).second) row.refuse(fmt::format("'id' is {} again", id));
    list.push_back({id, row.text("file"), static_cast<int>(row.integer("line", 1, kMost)), row.text("class"),
                    row.text("before"), row.text("after"), row.text("text")});
  }
  return list;
}

std::vector<Manifest> read_manifest(const std::string& path) {
  return parse_manifest(read_text(path, "list of mutants"), path);
}

std::vector<Excuse> read_excuses(const std::string& path) {
  return parse_excuses(read_text(path, "list of excuses"), path);
}

std::vector<Excuse> parse_excuses(std::string_view text, const std::string& where) {
  std::vector<Excuse> list;
  for (const auto& line : text_lines(text, where)) {
    const auto refuse = [&](const std::string& why) {
      return InputError(InputErrorKind::bad_value, line.where + ": " + why);
    };
    std::vector<std::string> parts;
    std::string rest = line.text;
    for (std::size_t at; parts.size() < 4 && (at = rest.find(" @ ")) != std::string::npos;
         rest = rest.substr(at + 3))
      parts.push_back(rest.substr(0, at));
    if (parts.size() != 4) throw refuse("want FILE @ SOURCE LINE @ BEFORE -> AFTER @ COUNT @ REASON");
    Excuse e{parts[0], parts[1], parts[2], 0, 0, rest, line.where};
    if (!read_count(parts[3], e))
      throw refuse("COUNT is '" + excerpt(parts[3]) +
                   "': want how many mutants the row excuses, or 2/4: the second of four");
    if (e.change.find_first_not_of("* ") == std::string::npos)
      throw refuse("a change that is nothing but * excuses whatever the generator thinks of");
    list.push_back(std::move(e));
  }
  return list;
}

Excused excused(std::span<const Excuse> list, std::span<const Manifest> mutants) {
  Excused out;
  for (const auto& e : list) {
    std::size_t matched = 0;
    for (const auto& m : mutants) {
      if (!excuses(e, m)) continue;
      ++matched;
      if (e.which != 0 && matched != e.which) continue;
      const auto [at, first] = out.by_id.emplace(m.id, &e);
      if (!first)
        out.faults.push_back(fmt::format("{} and {} both excuse {}", at->second->where, e.where, named(m)));
    }
    if (matched != e.count)
      out.faults.push_back(fmt::format("{}: {}: it matches {} mutants and states {}: {} @ {} @ {}", e.where,
                                       matched > e.count ? "too wide" : "stale", matched, e.count, e.file,
                                       e.text, e.change));
  }
  return out;
}

std::string killed_after_all(const Excuse& e, const Manifest& m, const std::string& by) {
  return fmt::format("{}: not equivalent: {} kills {}", e.where, by, named(m));
}

}  // namespace assay::mutants
