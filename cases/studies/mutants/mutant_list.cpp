#include "cases/studies/mutants/mutant_list.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "harness/case.hpp"
#include "reference/error.hpp"

namespace assay::mutants {
namespace {

// Whether a text is the pattern, in which * stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  for (std::size_t at = star; at <= text.size(); ++at)
    if (matches(rest, text.substr(at))) return true;
  return false;
}

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

std::vector<Manifest> read_manifest(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(InputErrorKind::bad_value, "no list of mutants at " + path);
  std::vector<Manifest> list;
  for (const auto& m : nlohmann::json::parse(file))
    list.push_back(
        {m.at("id"), m.at("file"), m.at("line"), m.at("class"), m.at("before"), m.at("after"), m.at("text")});
  return list;
}

std::vector<Excuse> read_excuses(const std::string& path) {
  std::vector<Excuse> list;
  for (const auto& line : read_suite(path)) {
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
      throw refuse("COUNT is '" + parts[3] +
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
