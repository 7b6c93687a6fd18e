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

// What the kernel of the point is held against: the contract that it says, with another word of one key. None where it says
// another word than `word`, or the op refuses the other.
std::vector<Contract> others_of(const Contract& said, const ContractWord& word) {
  const Op& row = op(word.op);
  const auto key = std::ranges::find(row.contract, std::string_view(word.key), &ContractKey::name);
  if (key == row.contract.end()) throw unknown_name("contract key", word.key, names_of(row.contract));
  std::vector<Contract> others;
  if (word.value == kAnyValue) {
    if (const std::optional<Contract> exact = made_exact(said, *key, row.contract)) others.push_back(*exact);
    return others;
  }
  if (said.text(word.key) != word.value) return others;
  for (const std::string& other : words_of(key->words)) {
    if (other == word.value) continue;
    try {
      others.push_back(Contract::parse(said.with(word.key, other).print(), row.contract));
    } catch (const InputError&) {  // the other keys do not allow it
    }
  }
  return others;
}

// Above 1 where the word is needed: over the elements the largest error / limit of another contract, and of a step that is a matter
// of degree no more than error / (limit / 2). 0 where the kernel leaves its own limit.
double need(const Point& point, const ContractWord& word) {
  const std::vector<Contract> others = others_of(said_contract(point), word);
  if (others.empty()) return 0;
  const Run run = run_of(point);
  const std::vector<Truth> own = truths_of(point, run);
  double most = 0;
  for (const Contract& contract : others) {
    std::vector<Truth> other;
    try {
      other = truths_of(point, run, &contract);
    } catch (const InputError&) {
      continue;  // it takes no such operands
    }
    for (std::size_t o = 0; o < own.size() && o < other.size() && o < run.outputs.size(); ++o)
      for (std::size_t i = 0; i < run.outputs[o].size(); ++i) {
        const double got = run.outputs[o][i], limit = own[o].limit[i], less = other[o].limit[i];
        const Judged here = judge(got, own[o].value[i], limit), there = judge(got, other[o].value[i], less);
        if (!here.ok) return 0;
        double score = there.ok ? there.ratio : 2;
        if (word.value == kAnyValue)
          score =
              less <= limit / 2 ? std::min(score, 2 * here.ratio) : std::min(here.ratio, limit / 2 / less);
        if (std::isfinite(score)) most = std::max(most, score);
      }
  }
  return most;
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
    for (const double factor : {0.0, 0.2, 0.5})
      if (factor == 0 || !row.condition) all.push_back({row.rule, factor});
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

std::string print(const ContractWord& word) { return fmt::format("{} {}={}", word.op, word.key, word.value); }

ContractWord parse_contract_word(std::string_view text) {
  const std::size_t blank = text.find(' '), is = text.find('=');
  if (blank == std::string_view::npos || is == std::string_view::npos || is < blank)
    throw InputError(InputErrorKind::bad_value, fmt::format("'{}': 'op key=word' is allowed", text));
  return {std::string(text.substr(0, blank)), std::string(text.substr(blank + 1, is - blank - 1)),
          std::string(text.substr(is + 1))};
}

std::vector<ContractWord> contract_words() {
  std::vector<ContractWord> all;
  for (const Op& row : ops()) {
    if (families_of(row.name).empty()) continue;
    for (const ContractKey& key : row.contract) {
      if (key.kind == ContractValue::text || key.ideal == "none") continue;
      if (key.kind == ContractValue::integer && key.ideal.empty()) continue;
      if (key.kind == ContractValue::word)
        for (const std::string& value : words_of(key.words))
          all.push_back({std::string(row.name), std::string(key.name), value});
      else
        all.push_back({std::string(row.name), std::string(key.name), std::string(kAnyValue)});
    }
  }
  return all;
}

bool shows(const Point& point, const ContractWord& word) { return need(point, word) > 1; }

std::optional<Point> find(const ContractWord& word, std::uint64_t seed, double seconds) {
  return search_in(families_of(word.op), seed, seconds, [&](const Point& point) {
    Shown shown;
    try {
      shown.ratio = need(point, word);
      shown.possible = true;
    } catch (const InputError& e) {
      shown.refusal = e.what();
    }
    return shown;
  });
}

}  // namespace assay::adversary
