#include "harness/case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <span>

#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::string_view kReserved[] = {"fill", "fault", "seed", "layout", "backend", "variant", "after"};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Words between blanks; what stands in double quotes is one word, without them.
std::vector<std::string> split_words(std::string_view text, std::string_view where) {
  std::vector<std::string> words;
  bool inside = false, quoted = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && std::isspace(static_cast<unsigned char>(c)) != 0) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (c != '"') words.back() += c;
  }
  if (quoted)
    throw InputError(InputErrorKind::bad_value, fmt::format("{}: a double quote is not closed", where));
  return words;
}

std::vector<std::string> keys_of(const Op& o) {
  std::vector<std::string> keys;
  for (const auto& a : o.attributes) keys.emplace_back(a.name);
  keys.insert(keys.end(), std::begin(kReserved), std::end(kReserved));
  return keys;
}

std::uint64_t parse_seed(const std::string& text, std::string_view where) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: seed={}: allowed: 0..18446744073709551615", where, text));
  return seed;
}

std::string parse_layout(const std::string& text, std::string_view where) {
  if (text != "dense" && text != "gaps" && text != "far")
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: layout={}: allowed: dense gaps far", where, text));
  return text;
}

// The calls of an `after`, each as its case prints itself.
std::vector<std::string> parse_after(const std::string& text, std::string_view where) {
  std::vector<std::string> calls;
  for (const std::string& line : split(text, ';')) {
    const std::string here = fmt::format("{}: after", where);
    const std::vector<Case> cases = expand(parse_case(line, here), here);
    if (cases.size() != 1 || !cases[0].backend.empty() || !cases[0].after.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}': allowed: lines of one case each, without backend and after, "
                                   "separated by ;",
                                   here, line));
    calls.push_back(cases[0].line());
  }
  return calls;
}

std::optional<std::string> value_of(const Case& c, std::string_view key) {
  if (key == "fill") return c.fill;
  if (key == "fault") return c.fault;
  if (key == "seed") return fmt::format("{}", c.seed);
  if (key == "layout") return c.layout;
  if (key == "backend") return c.backend;
  if (key == "variant") return c.variant;
  const auto found = c.attributes.all().find(std::string(key));
  if (found == c.attributes.all().end()) return std::nullopt;
  return found->second;
}

Case make_case(const Op& o, const std::vector<std::pair<std::string, std::string>>& given,
               std::string_view where) {
  Case c;
  c.op = &o;
  std::map<std::string, std::string> attributes;
  for (const auto& [key, value] : given) {
    if (key == "fill")
      c.fill = value;
    else if (key == "fault")
      c.fault = value;
    else if (key == "seed")
      c.seed = parse_seed(value, where);
    else if (key == "layout")
      c.layout = parse_layout(value, where);
    else if (key == "backend")
      c.backend = value;
    else if (key == "variant")
      c.variant = value;
    else if (key == "after")
      c.after = parse_after(value, where);
    else
      attributes.emplace(key, value);
  }
  try {
    c.attributes = Attributes::complete(o.attributes, attributes);
    (void)o.tensors(c.attributes);  // an impossible shape is refused here, before anything runs
  } catch (const InputError& e) {
    const std::string_view text = e.what();
    throw InputError(e.kind(),
                     fmt::format("{}: {}: {}", where, o.name,
                                 text.substr(std::min(text.size(), to_string(e.kind()).size() + 2))));
  }
  return c;
}

}  // namespace

std::string Case::inputs() const {
  std::string text(op->name);
  // An attribute is printed when it differs from what completion alone would give it; a default may be the
  // value of another attribute (dv=@d).
  for (const auto& spec : op->attributes) {
    const std::string name(spec.name);
    const std::string& value = attributes.all().at(name);
    const bool is_default = spec.fallback.starts_with('@')
                                ? value == attributes.all().at(std::string(spec.fallback.substr(1)))
                                : value == spec.fallback;
    if (!is_default) text += fmt::format(" {}={}", name, value);
  }
  if (fill != "gaussian") text += " fill=" + fill;
  if (fault != "none") text += " fault=" + fault;
  text += fmt::format(" seed={}", seed);
  if (layout != "dense") text += " layout=" + layout;
  return text;
}

std::string Case::line() const {
  std::string text = inputs();
  if (!backend.empty()) text += " backend=" + backend;
  if (!variant.empty()) text += " variant=" + variant;
  if (!after.empty()) text += fmt::format(" after=\"{}\"", fmt::join(after, "; "));
  return text;
}

std::vector<std::string> split_backends(std::string_view text, std::string_view where) {
  std::vector<std::string> names;
  for (const std::string& part : split(text, ',')) {
    const auto key_end = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_");
    if (key_end == std::string::npos || key_end == 0 || part[key_end] != '=') {
      if (part.empty())
        throw InputError(InputErrorKind::bad_value, fmt::format("{}: '{}' has an empty name", where, text));
      names.push_back(part);
    } else if (names.empty() || names.back().find(':') == std::string::npos) {
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("{}: '{}': {} is an option of no backend; allowed: NAME:key=value,key=value", where,
                      text, part));
    } else {
      names.back() += "," + part;
    }
  }
  return names;
}

std::string CaseSet::print() const {
  std::string text = op;
  for (const auto& [key, values] : sets)
    text += key == "after" ? fmt::format(" after=\"{}\"", values.front())
                           : fmt::format(" {}={}", key, fmt::join(values, ","));
  return text;
}

CaseSet parse_case(std::string_view text, std::string_view where) {
  const std::vector<std::string> words = split_words(text, where);
  CaseSet set;
  if (words.empty())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: empty case line; allowed: op key=value ...", where));
  set.op = words.front();
  std::vector<std::string> keys;
  if (set.op == "*") {  // lists of expected gaps only; expand() refuses it
    for (const auto& o : ops())
      for (auto& key : keys_of(o)) keys.push_back(std::move(key));
  } else if (const Op* o = find_op(set.op)) {
    keys = keys_of(*o);
  } else {
    std::vector<std::string> names;
    for (const auto& known : ops()) names.emplace_back(known.name);
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("{}: no op '{}'; {}", where, set.op, suggest(set.op, names)));
  }
  for (const std::string& word : std::span(words).subspan(1)) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: '{}' is not key=value", where, word));
    const std::string key = word.substr(0, equals);
    if (std::ranges::find(keys, key) == keys.end())
      throw InputError(InputErrorKind::unknown_name,
                       fmt::format("{}: {} has no key '{}'; {}", where, set.op, key, suggest(key, keys)));
    for (const auto& [earlier, values] : set.sets)
      if (earlier == key)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: key '{}' is given twice; write a set: {}=a,b", where, key, key));
    const std::string_view text_of_values = std::string_view(word).substr(equals + 1);
    auto values = key == "backend" ? split_backends(text_of_values, where)
                  : key == "after" ? std::vector{std::string(text_of_values)}
                                   : split(text_of_values, ',');
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].empty())
        throw InputError(InputErrorKind::bad_value, fmt::format("{}: '{}' has an empty value", where, word));
      if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
          values.begin() + static_cast<std::ptrdiff_t>(i))
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: '{}' repeats the value '{}'", where, word, values[i]));
    }
    set.sets.emplace_back(key, std::move(values));
  }
  return set;
}

std::vector<Case> expand(const CaseSet& set, std::string_view where) {
  const Op& o = op(set.op);
  std::vector<Case> cases;
  std::vector<std::size_t> at(set.sets.size(), 0);
  while (true) {
    std::vector<std::pair<std::string, std::string>> given;
    for (std::size_t i = 0; i < at.size(); ++i)
      given.emplace_back(set.sets[i].first, set.sets[i].second[at[i]]);
    cases.push_back(make_case(o, given, where));
    std::size_t i = at.size();  // an odometer: the last key turns fastest
    while (i > 0 && ++at[i - 1] == set.sets[i - 1].second.size()) at[--i] = 0;
    if (i == 0) return cases;
  }
}

std::vector<SuiteLine> read_suite(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(InputErrorKind::bad_value, fmt::format("case file '{}' cannot be read", path));
  std::vector<SuiteLine> lines;
  std::string line, pending;
  int number = 0, first = 0;
  while (std::getline(file, line)) {
    ++number;
    if (const auto comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (pending.empty()) first = number;
    if (!line.empty() && line.back() == '\\') {
      line.back() = ' ';
      pending += line;
      continue;
    }
    pending += line;
    if (pending.find_first_not_of(" \t") != std::string::npos)
      lines.push_back({pending, fmt::format("{}:{}", path, first)});
    pending.clear();
  }
  if (!pending.empty())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}:{}: the file ends in a continued line", path, first));
  return lines;
}

bool matches(const CaseSet& set, const Case& c) {
  if (set.op != "*" && set.op != c.op->name) return false;
  return std::ranges::all_of(set.sets, [&](const auto& entry) {
    const auto value = value_of(c, entry.first);
    if (!value) return false;
    const bool excludes = entry.second.front().starts_with('!');
    const bool named = std::ranges::any_of(entry.second, [&](const std::string& v) {
      return std::string_view(v).substr(v.starts_with('!') ? 1 : 0) == *value;
    });
    return named != excludes;
  });
}

}  // namespace assay
