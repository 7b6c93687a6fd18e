#include "harness/case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>

#include "harness/backend_names.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::uint64_t kMostCases = 65536;  // of one line
constexpr std::size_t kLongestValue = 4096;  // of one key: the longest path there is
constexpr std::size_t kMostBytes = std::size_t{1}
                                   << 47;  // that a process can address: all tensors of a case together

constexpr std::string_view kNameBytes = "!-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

constexpr std::string_view kFileFill = "file:";  // and the path of the data (harness/case_file.hpp), escaped
constexpr std::string_view kAfter = "after=\"";
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
                     fmt::format("{}: seed={}: allowed: 0..18446744073709551615", where, excerpt(text)));
  return seed;
}

std::string parse_layout(const std::string& text, std::string_view where) {
  if (std::ranges::find(kLayouts, text) == std::end(kLayouts))
    throw InputError(InputErrorKind::bad_value, fmt::format("{}: layout={}: allowed: {}", where,
                                                            excerpt(text), fmt::join(kLayouts, " ")));
  return text;
}

// A shape beyond any machine is refused here, before anything runs: what is multiplied later cannot overflow.
void check_tensors(const std::vector<TensorSpec>& tensors) {
  std::size_t bytes = 0;
  for (const TensorSpec& t : tensors)
    for (const PlaneSpec& plane : planes(format(t.format), t.shape)) {
      // Each is below 2^63 bytes (element_count), so that a sum of two cannot overflow.
      bytes += plane.bytes;
      if (bytes > kMostBytes)
        throw InputError(
            InputErrorKind::shape_mismatch,
            fmt::format("the tensors up to {}{} have more than 2^47 bytes, which no process can address",
                        t.name, to_string(t.shape)));
    }
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

Case make_case(const Op& o, const std::vector<std::pair<std::string, std::string>>& given,
               std::string_view where) {
  Case c;
  c.op = &o;
  std::map<std::string, std::string> attributes;
  for (const auto& [key, value] : given) {
    if (value.starts_with('!'))
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: {}={}: only a list of expectations excludes a value by '!'", where,
                                   key, excerpt(value)));
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
      c.variant = unescaped(value, where);
    else if (key == "after")
      c.after = parse_after(value, where);
    else
      attributes.emplace(key, value);
  }
  try {
    c.attributes = Attributes::complete(o.attributes, attributes);
    check_tensors(o.tensors(c.attributes));
  } catch (const InputError& e) {
    std::string_view text = e.what();
    text.remove_prefix(std::min(text.size(), to_string(e.kind()).size() + 2));
    const std::string op = fmt::format("{}: ", o.name);
    throw InputError(e.kind(), fmt::format("{}: {}{}", where, text.starts_with(op) ? "" : op, text));
  }
  return c;
}

}  // namespace

std::string spelt_value(std::string_view key, const std::string& value, std::string_view where) {
  if (key == "seed") return fmt::format("{}", parse_seed(value, where));
  if (key == "layout") return parse_layout(value, where);
  return value;
}

bool is_reserved(std::string_view key) { return std::ranges::find(kReserved, key) != std::end(kReserved); }

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
  if (!variant.empty()) text += " variant=" + escaped_text(variant);
  if (!after.empty()) text += fmt::format(" after=\"{}\"", fmt::join(after, "; "));
  return text;
}

std::string CaseSet::print() const {
  std::string text = op;
  for (const auto& [key, values] : sets)
    text += key == "after" ? fmt::format(" after=\"{}\"", values.front())
                           : fmt::format(" {}={}", key, fmt::join(values, ","));
  return text;
}

namespace {

// The words of a line, between blanks and tabs; after="..." is one word.
std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::vector<std::string_view> words;
  for (auto at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const bool quoted = text.substr(at).starts_with(kAfter);
    const auto end =
        std::min(text.find_first_of(kBlank, quoted ? text.find('"', at + kAfter.size()) : at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlank, end);
  }
  return words;
}

// The values of one word, each of them once.
std::vector<std::string> values_of(const std::string& key, std::string_view text, std::string_view word,
                                   std::string_view where) {
  if (key == "after") {
    if (text.size() < 2 || !text.starts_with('"') || text.find('"', 1) != text.size() - 1)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: {}: allowed: after=\"line; line\"", where, excerpt(word)));
    return {std::string(text.substr(1, text.size() - 2))};
  }
  auto values = key == "backend" ? split_backends(text, where) : split(text, ',');
  std::unordered_set<std::string> seen;
  for (auto& value : values) {
    if (key == "variant") value = spelt_variant(value, where);
    if (value.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}' has an empty value", where, excerpt(word)));
    if (value.size() > kLongestValue)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}': a value of {} bytes; allowed: at most {}", where, excerpt(word),
                                   value.size(), kLongestValue));
    if (key == "fill" && value.starts_with(kFileFill)) {
      const std::string path = unescaped(std::string_view(value).substr(kFileFill.size()), where);
      if (path.empty())
        throw InputError(InputErrorKind::bad_value, fmt::format("{}: fill=file: has no path", where));
      value = std::string(kFileFill) + escaped_path(path);
    } else if ((key == "fill" || key == "fault") && value.find_first_not_of(kNameBytes) != std::string::npos)
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}={}: allowed: a name; assay list {}s",
                                                              where, key, excerpt(value), key));
    if (!seen.insert(value).second)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}' repeats the value '{}'", where, excerpt(word), excerpt(value)));
  }
  return values;
}

}  // namespace

CaseSet parse_case(std::string_view text, std::string_view where) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: empty case line; allowed: op key=value ...", where));
  CaseSet set;
  set.op = words[0];
  std::vector<std::string> keys;
  if (set.op == "*") {  // lists of expected gaps only; expand() refuses it
    for (const Op* o : every_op())
      for (auto& key : keys_of(*o)) keys.push_back(std::move(key));
  } else if (const Op* o = find_op(set.op)) {
    keys = keys_of(*o);
  } else {
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("{}: no op '{}'; {}", where, excerpt(set.op), suggest(set.op, op_names())));
  }
  for (const std::string_view word : std::span(words).subspan(1)) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}' is not key=value{}; keys of {}: {}", where, excerpt(word),
                                   word.starts_with('-') ? " (options stand outside of the quotes)" : "",
                                   set.op, fmt::join(keys, " ")));
    const std::string key(word.substr(0, equals));
    if (std::ranges::find(keys, key) == keys.end())
      throw InputError(InputErrorKind::unknown_name, fmt::format("{}: {} has no key '{}'; {}", where, set.op,
                                                                 excerpt(key), suggest(key, keys)));
    for (const auto& [earlier, values] : set.sets)
      if (earlier == key)
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{}: key '{}' is given twice; write a set: {}=a,b", where, key, key));
    if (!is_reserved(key))
      for (const std::string& value : split(word.substr(equals + 1), ','))
        if (const auto inner = value.find('=');
            inner != std::string::npos && std::ranges::find(keys, value.substr(0, inner)) != keys.end())
          throw InputError(
              InputErrorKind::bad_value,
              fmt::format("{}: '{}': a comma separates the values of one key; keys are separated by a blank",
                          where, excerpt(word)));
    set.sets.emplace_back(key, values_of(key, word.substr(equals + 1), word, where));
  }
  return set;
}

std::uint64_t case_count(const CaseSet& set) {
  std::uint64_t count = 1;
  for (const auto& [key, values] : set.sets)
    if (__builtin_mul_overflow(count, values.size(), &count))
      return std::numeric_limits<std::uint64_t>::max();
  return count;
}

std::vector<Case> expand(const CaseSet& set, std::string_view where) {
  const Op* found = find_op(set.op);
  if (found == nullptr)
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("{}: no op '{}'; {}", where, excerpt(set.op), suggest(set.op, op_names())));
  const Op& o = *found;
  if (const std::uint64_t count = case_count(set); count > kMostCases)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: {}{} cases in one line; allowed: at most {}", where,
                                 count == std::numeric_limits<std::uint64_t>::max() ? "more than " : "",
                                 count, kMostCases));
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

}  // namespace assay
