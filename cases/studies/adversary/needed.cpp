#include "cases/studies/adversary/needed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "reference/arithmetic/contract.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/judged.hpp"

namespace assay::adversary {
namespace {

constexpr std::string_view kAnyValue = "*";  // of a key whose other value is the most exact one

// The contract that is said, with another word of one key; nullopt where the point says another word, or the op refuses it.
std::optional<Contract> under(const Point& point, const OtherWord& word) {
  const Family& own = family(point.family);
  const Op& row = op(own.op);
  const Contract said = said_contract(point);
  if (word.value == kAnyValue) {
    for (const ContractKey& key : row.contract)
      if (key.name == word.key) return made_exact(said, key, row.contract);
    return std::nullopt;
  }
  if (said.text(word.key) != word.value) return std::nullopt;
  return Contract::parse(said.with(word.key, word.other).print(), row.contract);
}

// Over the elements: the largest of min(error / (limit / 2), error / limit of the other contract), which is above 1 where the word
// is needed; of a word that is not a matter of degree error / limit of the other contract alone.
double need(const Point& point, const OtherWord& word) {
  try {
    const std::optional<Contract> other = under(point, word);
    if (!other) return 0;
    const Run run = run_of(point);
    const std::vector<Truth> loose = truths_of(point, run), sharp = truths_of(point, run, &*other);
    double most = 0;
    for (std::size_t o = 0; o < loose.size() && o < sharp.size() && o < run.outputs.size(); ++o)
      for (std::size_t i = 0; i < run.outputs[o].size(); ++i) {
        const double got = run.outputs[o][i], limit = loose[o].limit[i];
        const Judged here = judge(got, loose[o].value[i], limit),
                     there = judge(got, sharp[o].value[i], sharp[o].limit[i]);
        if (!here.ok || !std::isfinite(got)) return 0;  // the word is not kept, or nothing is to tell
        double score = there.ok ? there.ratio : 2 + std::min(there.ratio, 1e6);
        if (word.value == kAnyValue) {
          const bool half = sharp[o].limit[i] <= limit / 2;
          score =
              half ? std::min(score, 2 * here.ratio) : std::min(here.ratio, limit / 2 / sharp[o].limit[i]);
        }
        if (std::isfinite(score)) most = std::max(most, score);
      }
    return most;
  } catch (const InputError&) {
    return 0;
  }
}

std::vector<const Family*> families_of(std::string_view op_name) {
  std::vector<const Family*> all;
  for (const Family& each : families())
    if (op_name.empty() || each.op == op_name) all.push_back(&each);
  return all;
}

// Searches in the families in turn, in slices that grow, until `shown` holds.
template <typename Score>
std::optional<Point> search_in(const std::vector<const Family*>& among, std::uint64_t seed, double seconds,
                               Score score) {
  double spent = 0;
  for (double slice = 0.5; spent < seconds; slice *= 2)
    for (const Family* each : among) {
      if (spent >= seconds) break;
      SearchOptions options;
      options.seed = ++seed, options.seconds = std::min(slice, seconds - spent),
      options.stop_at_violation = true;
      options.climb = 60, options.score = score;
      std::optional<Point> point;
      options.found = [&](const Finding& finding) { point = finding.point; };
      search(*each, options);
      spent += slice;
      if (point) return point;
    }
  return std::nullopt;
}

std::string_view name_of(Rule rule) {
  for (const RuleRow& row : kRules)
    if (row.rule == rule) return row.name;
  return "none";
}

}  // namespace

std::string print(const WeakRule& weak) { return fmt::format("{}*{}", name_of(weak.rule), weak.factor); }

WeakRule parse_weak_rule(std::string_view text) {
  const std::size_t star = std::min(text.find('*'), text.size());
  const std::string_view name = text.substr(0, star);
  const auto row = std::ranges::find(kRules, name, &RuleRow::name);
  if (row == kRules.end()) throw unknown_name("rule", name, names_of(kRules));
  WeakRule weak{row->rule, 0};
  if (star == text.size()) return weak;
  const std::string_view factor = text.substr(star + 1);
  const auto [end, error] = std::from_chars(factor.data(), factor.data() + factor.size(), weak.factor);
  if (error != std::errc{} || end != factor.data() + factor.size() || !(weak.factor >= 0 && weak.factor < 1))
    throw InputError(InputErrorKind::bad_value, fmt::format("{}: a factor of 0 to below 1 is allowed", text));
  return weak;
}

std::vector<WeakRule> weak_rules() {
  std::vector<WeakRule> all;
  for (const RuleRow& row : kRules)
    for (const double factor : {0.0, 0.2, 0.5}) all.push_back({row.rule, factor});
  return all;
}

bool shows(const Point& point, const WeakRule& weak) {
  if (const Shown sound = show(point); !sound.possible || sound.ratio > 1) return false;
  const Unsound unsound(weak.rule, weak.factor);
  return show(point).ratio > 1;
}

std::optional<Point> find(const WeakRule& weak, std::uint64_t seed, double seconds) {
  return search_in(families_of(""), seed, seconds, [&](const Point& point) {
    Shown shown;
    {
      const Unsound unsound(weak.rule, weak.factor);
      shown = show(point);
    }
    if (shown.ratio > 1 && !shows(point, weak))
      shown.ratio = 0;  // beyond the sound limit too: no matter of this rule
    return shown;
  });
}

std::string print(const OtherWord& word) {
  return fmt::format("{} {}={} > {}", word.op, word.key, word.value, word.other);
}

OtherWord parse_other_word(std::string_view text) {
  const std::size_t blank = text.find(' '), is = text.find('='), than = text.find(" > ");
  if (blank == std::string_view::npos || is == std::string_view::npos || than == std::string_view::npos ||
      is < blank || than < is)
    throw InputError(InputErrorKind::bad_value, fmt::format("'{}': 'op key=word > other' is allowed", text));
  return {std::string(text.substr(0, blank)), std::string(text.substr(blank + 1, is - blank - 1)),
          std::string(text.substr(is + 1, than - is - 1)), std::string(text.substr(than + 3))};
}

std::vector<OtherWord> other_words() {
  std::vector<OtherWord> all;
  for (const Op& row : ops()) {
    if (families_of(row.name).empty()) continue;
    const std::string name(row.name);
    for (const ContractKey& key : row.contract) {
      if (key.kind == ContractValue::text) continue;  // judged by bits: a schedule
      if (key.kind != ContractValue::word) {
        if (key.ideal != "none" && (key.kind != ContractValue::integer || !key.ideal.empty()))
          all.push_back({name, std::string(key.name), std::string(kAnyValue), "exact"});
        continue;
      }
      for (const std::string& value : words_of(key.words))
        for (const std::string& other : words_of(key.words))
          if (value != other) all.push_back({name, std::string(key.name), value, other});
    }
  }
  return all;
}

bool shows(const Point& point, const OtherWord& word) { return need(point, word) > 1; }

std::optional<Point> find(const OtherWord& word, std::uint64_t seed, double seconds) {
  return search_in(families_of(word.op), seed, seconds, [&](const Point& point) {
    Shown shown;
    try {
      said_contract(point);
      shown.possible = true;
      shown.ratio = need(point, word);
    } catch (const InputError& e) {
      shown.refusal = e.what();
    }
    return shown;
  });
}

}  // namespace assay::adversary
