#include "cases/studies/sweep/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "harness/backend_names.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay::sweep {
namespace {

constexpr std::size_t kMostCells = 65536;  // of one line

using Kind = KeyKind;

constexpr KeySpec kCommon[] = {
    {"len", Kind::integer, "", "16..4194304", "keys"},
    {"needles", Kind::integer, "256", "1..65536", "queries, each with a needle of its own"},
    {"depth", Kind::word, "spread", "spread|0|0.125|0.25|0.375|0.5|0.625|0.75|0.875|1",
     "where the needles lie: spread over the keys, or side by side at this part of them"},
    {"dtype", Kind::word, "f32", "f32|f16|bf16", "format of q and of the output"},
    {"d", Kind::integer, "128", "32..1024", "width of a row of q, K and V"},
    {"heads", Kind::integer, "8", "1..256", "query heads, over which the needles are dealt"},
    {"page", Kind::integer, "0", "0..65536", "keys per page; 0: contiguous"},
    {"scales", Kind::word, "own", "own|locked",
     "scales of K: from these keys, or locked on an earlier request"},
    {"drift", Kind::real, "1", "0.001..1000",
     "K is this many times larger than in the request that its scale was locked on"},
    {"outlier", Kind::real, "0", "0..1000",
     "added to four channels of K, in units of the deviation of the others"},
    {"rotate", Kind::word, "none", "none|qk", "whether q and K are stored rotated, in groups of 32"},
};
constexpr KeySpec kQk[] = {
    {"k", Kind::format, "f16", "", "format of K"},
    {"v", Kind::format, "f32", "", "format of V"},
    {"near", Kind::integer, "4", "2..8",
     "keys that match or nearly match a query, each with a value of its own"},
    {"delta", Kind::real, "0", "0..1",
     "cosine of a near key to the needle's is 1 - delta; 0: a ladder of 14 rungs, 2^-1 to 2^-14"},
    {"beta", Kind::real, "64", "0.001..100000", "logit of the needle"},
    {"eta", Kind::real, "1.7", "0..100",
     "the query's part that no key has, in units of the part that one has"},
};
constexpr KeySpec kPv[] = {
    {"k", Kind::format, "e4m3fn", "", "format of K"},
    {"v", Kind::format, "@k", "", "format of V"},
    {"score", Kind::real, "8.9", "0..1000", "logit of the needle"},
    {"spread", Kind::real, "1", "0.001..100", "deviation of the other logits, whose mean is 0"},
    {"mean", Kind::real, "0", "0..1000",
     "deviation of V's channel means, in units of the deviation within a channel"},
};

std::vector<KeySpec> joined(std::span<const KeySpec> own) {
  std::vector<KeySpec> all(std::begin(kCommon), std::end(kCommon));
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

[[noreturn]] void refuse(std::string_view where, const std::string& what) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, what));
}

std::vector<std::string> split(std::string_view text, char separator) {
  const std::vector<std::string_view> words = listed_words(text, separator);
  return {words.begin(), words.end()};
}

std::uint64_t seed_of(const std::string& text, std::string_view where) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size())
    refuse(where, fmt::format("seed={}: allowed: 0..18446744073709551615", text));
  return seed;
}

using Given = std::map<std::string, std::string>;

void check(const Cell& c, std::string_view where) {
  const std::int64_t planted = c.integer("needles") * (c.probe == Probe::qk ? c.integer("near") : 1);
  if (planted > c.integer("len"))
    refuse(where, fmt::format("len={}: {} keys are planted, which must not be more than there are",
                              c.integer("len"), planted));
  if (c.integer("needles") % c.integer("heads") != 0)
    refuse(where, fmt::format("needles={}: allowed: a multiple of heads={}", c.integer("needles"),
                              c.integer("heads")));
  if (c.integer("d") % 32 != 0) refuse(where, fmt::format("d={}: allowed: multiples of 32", c.integer("d")));
  if (c.attributes.text("scales") == "locked" && format(c.attributes.text("k")).axis != ScaleAxis::tensor)
    refuse(where, fmt::format("scales=locked k={}: allowed: a format with one scale per tensor",
                              c.attributes.text("k")));
  c.attention();
}

Cell make_cell(Probe probe, Given given, std::string_view where) {
  Cell c;
  c.probe = probe;
  const auto take = [&](const char* key) {
    auto node = given.extract(key);
    return node.empty() ? std::string() : node.mapped();
  };
  if (given.contains("seed")) c.seed = seed_of(take("seed"), where);
  c.backend = take("backend");
  c.variant = unescaped(take("variant"), where);
  try {
    c.attributes = Attributes::complete(keys_of(probe), given);
  } catch (const InputError& e) {
    const std::string_view text = e.what();
    throw InputError(
        e.kind(),
        fmt::format("{}: {}", where, text.substr(std::min(text.size(), to_string(e.kind()).size() + 2))));
  }
  check(c, where);
  return c;
}

}  // namespace

std::span<const KeySpec> keys_of(Probe probe) {
  static const std::vector<KeySpec> qk = joined(kQk), pv = joined(kPv);
  return probe == Probe::qk ? qk : pv;
}

std::string Cell::inputs() const {
  std::string text = probe == Probe::qk ? "qk" : "pv";
  for (const KeySpec& spec : keys_of(probe)) {
    const std::string& value = attributes.text(spec.name);
    const bool is_default = spec.fallback.starts_with('@') ? value == attributes.text(spec.fallback.substr(1))
                                                           : value == spec.fallback;
    if (!is_default) text += fmt::format(" {}={}", spec.name, value);
  }
  return text + fmt::format(" seed={}", seed);
}

std::string Cell::line() const {
  std::string text = inputs();
  if (!backend.empty()) text += " backend=" + backend;
  if (!variant.empty()) text += " variant=" + escaped_text(variant);
  return text;
}

Case Cell::attention() const {
  std::string text = fmt::format("attention q={} kv_heads=1", integer("needles") / integer("heads"));
  for (const char* key : {"heads", "d", "len", "k", "v", "dtype", "page", "rotate"})
    text += fmt::format(" {}={}", key, attributes.text(key));
  Case c = expand(parse_case(text, "cell"), "cell").at(0);
  c.seed = seed;
  c.backend = backend;
  c.variant = variant;
  return c;
}

double Cell::work() const {
  return static_cast<double>(integer("needles")) * static_cast<double>(integer("len")) * 2.0 *
         static_cast<double>(integer("d"));
}

std::vector<Cell> parse_cells(std::string_view line, const std::vector<std::string>& backends,
                              std::string_view where) {
  std::vector<std::string> words;
  for (std::string& word : split(line, ' '))
    if (!word.empty()) words.push_back(std::move(word));
  if (words.empty()) refuse(where, "an empty line; it begins with qk or pv");
  if (words[0] != "qk" && words[0] != "pv")
    throw unknown_name("probe", words[0], std::vector<std::string>{"qk", "pv"});
  const Probe probe = words[0] == "qk" ? Probe::qk : Probe::pv;
  std::vector<Given> sets(1);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    if (equals == std::string::npos || equals == 0 || equals + 1 == words[i].size())
      refuse(where, fmt::format("'{}': allowed: key=value", words[i]));
    if (sets.front().contains(key)) refuse(where, fmt::format("{} is given twice", key));
    const std::string text = words[i].substr(equals + 1);
    std::vector<Given> more;
    for (const std::string& value : key == "backend" ? split_backends(text, where) : split(text, ','))
      for (Given set : sets) {
        if (value.empty()) refuse(where, fmt::format("{}: an empty value", words[i]));
        set[key] = value;
        more.push_back(std::move(set));
        if (more.size() > kMostCells) refuse(where, fmt::format("more than {} cells", kMostCells));
      }
    sets = std::move(more);
  }
  std::vector<Cell> cells;
  for (const Given& set : sets) {
    Cell c = make_cell(probe, set, where);
    const std::vector<std::string> own = {c.backend};
    for (const std::string& backend : c.backend.empty() && !backends.empty() ? backends : own) {
      c.backend = backend;
      cells.push_back(c);
    }
  }
  return cells;
}

}  // namespace assay::sweep
