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

constexpr double kMostNeed = 1e9;
constexpr std::string_view kAnyValue = "*";  // of a key whose other value is the most exact one

// One that the op's kernels may have: a kernel that is not it needs level=limit.
std::string_view plain_schedule(std::string_view op_name) {
  return op_name == "softmax"                             ? "quotient:division"
         : op_name == "logsumexp"                         ? "log:nearest"
         : op_name == "layernorm" || op_name == "rmsnorm" ? "mean:division"
         : op_name == "wht"                               ? "scale:last"
         : op_name == "moe"                               ? "up.acc:f32"
                                                          : "acc:f32";
}

// What the kernel of the point is held against: the contract that it says, with another word of one key. None
// where it says another word than `word`, or the op refuses the other.
std::vector<Contract> others_of(const Contract& said, const ContractWord& word) {
  const Op& row = op(word.op);
  const auto key = std::ranges::find(row.contract, std::string_view(word.key), &KeySpec::name);
  if (key == row.contract.end()) throw unknown_name("contract key", word.key, names_of(row.contract));
  std::vector<Contract> others;
  if (word.value == kAnyValue) {
    if (const std::optional<Contract> exact = made_exact(said, *key, row.contract)) others.push_back(*exact);
    return others;
  }
  if (said.text(word.key) != word.value) return others;
  for (const std::string& other : words_of(key->allowed)) {
    if (other == word.value) continue;
    try {
      Contract changed = said.with(word.key, other);
      if (word.key == "level" && other == "replay")  // goes with a schedule
        changed = changed.with("schedule", plain_schedule(word.op));
      others.push_back(Contract::parse(changed.print(), row.contract));
    } catch (const InputError&) {  // the other keys do not allow it
    }
  }
  return others;
}

// The largest score of an element, judged by its own limit and by another; 0 where the kernel leaves its own
// limit.
template <typename Score>
double most_over(const Run& run, const std::vector<Truth>& own, const std::vector<Truth>& other,
                 Score score) {
  double most = 0;
  for (std::size_t o = 0; o < own.size() && o < other.size() && o < run.outputs.size(); ++o)
    for (std::size_t i = 0; i < run.outputs[o].size(); ++i) {
      const double got = run.outputs[o][i], limit = own[o].limit[i], less = other[o].limit[i];
      const Judged here = judge(got, own[o].value[i], limit), there = judge(got, other[o].value[i], less);
      if (!here.ok) return 0;
      const double is = score(here, there, limit, less);
      if (!std::isnan(is)) most = std::max(most, std::min(is, kMostNeed));
    }
  return most;
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

double need(const WeakRule& weak, const Point& point, const Run& run, const std::vector<Truth>& own) {
  std::vector<Truth> less;
  {
    const Unsound unsound(weak.rule, weak.factor);
    less = truths_of(point, run);
  }
  return most_over(run, own, less, [](const Judged&, const Judged& there, double limit, double weaker) {
    return weaker < limit || !there.ok ? there.ratio : 0;
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
    if (std::ranges::find(families(), row.name, &Family::op) == families().end()) continue;
    for (const KeySpec& key : row.contract) {
      if (key.kind == KeyKind::text || key.ideal == "none") continue;
      if (key.kind == KeyKind::integer && key.ideal.empty()) continue;
      if (key.kind == KeyKind::word)
        for (const std::string& value : words_of(key.allowed))
          all.push_back({std::string(row.name), std::string(key.name), value});
      else
        all.push_back({std::string(row.name), std::string(key.name), std::string(kAnyValue)});
    }
  }
  return all;
}

double need(const ContractWord& word, const Point& point, const Run& run, const std::vector<Truth>& own) {
  double most = 0;
  for (const Contract& contract : others_of(run.contract, word)) {
    std::vector<Truth> other;
    try {
      other = truths_of(point, run, &contract);
    } catch (const InputError&) {
      continue;  // it takes no such operands
    }
    const bool degree = word.value == kAnyValue;
    most = std::max(
        most,
        most_over(run, own, other, [&](const Judged& here, const Judged& there, double limit, double less) {
          const double score = there.ok ? there.ratio : std::max(there.ratio, 2.0);
          if (!degree) return score;
          return less <= limit / 2 ? std::min(score, 2 * here.ratio) : std::min(here.ratio, limit / 2 / less);
        }));
  }
  return most;
}

}  // namespace assay::adversary
