#include "harness/strangers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "harness/backend_names.hpp"
#include "harness/input_lists.hpp"
#include "harness/pairwise.hpp"
#include "harness/reach.hpp"
#include "harness/suites.hpp"
#include "reference/inputs/random.hpp"

namespace assay {
namespace {

// A case of the pairwise part stays below these; a line whose plainest case is larger allows what that takes.
constexpr double kMostWork = 3e7;         // output elements times the longest axis that is summed over
constexpr double kMostElements = 3e6;     // of all tensors
constexpr std::size_t kMostAsked = 2500;  // declarations until a line is given up

struct Factor {
  std::string key;
  std::vector<std::string> values;
};

std::vector<std::string> words_between(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// What `all` stands for.
std::vector<std::string> all_values(const Op& op, const std::string& key, const InputLists& lists,
                                    const std::vector<std::string>& variants, const std::string& where) {
  std::vector<std::string> all;
  const auto add = [&](std::string name) {
    if (std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
  };
  if (key == "fill")
    for (const Fill& f : lists.fills) {
      if (f.op.empty() || f.op == op.name) add(std::string(f.name));
    }
  else if (key == "fault")
    for (const Fault& f : lists.faults) {
      if (applies(f, op.name)) add(std::string(f.name));
    }
  else if (key == "variant") {
    add("");
    for (const std::string& v : variants) {
      const std::size_t colon = v.find(':');
      const bool of_an_op = colon != std::string::npos && find_op(v.substr(0, colon)) != nullptr;
      if (!of_an_op) add(v);
      if (of_an_op && v.substr(0, colon) == op.name) add(v.substr(colon + 1));
    }
  } else {
    const auto spec = std::ranges::find(op.attributes, key, &AttributeSpec::name);
    if (spec != op.attributes.end() && spec->kind == AttributeKind::format && spec->allowed.empty())
      for (const auto& f : formats()) add(std::string(f.name));
    else if (spec != op.attributes.end() &&
             (spec->kind == AttributeKind::format || spec->kind == AttributeKind::word))
      all = words_between(spec->allowed, '|');
    else
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("{}: {}=all: allowed for formats, words, fill, fault and variant", where, key));
  }
  return all;
}

// "4..900": a whole number, its logarithm drawn evenly.
std::optional<std::string> drawn(const std::string& value, const Stream& stream, std::uint64_t index) {
  const std::size_t dots = value.find("..");
  if (dots == std::string::npos) return std::nullopt;
  double low = 0, high = 0;
  const char* const begin = value.data();
  if (std::from_chars(begin, begin + dots, low).ec != std::errc{} ||
      std::from_chars(begin + dots + 2, begin + value.size(), high).ec != std::errc{} || low < 1 ||
      high < low)
    return std::nullopt;
  const double x = low * std::pow((high + 1) / low, stream.uniform(index));
  return fmt::format("{:.0f}", std::min(high, std::floor(x)));
}

// One line of the list, for one backend.
class Line {
 public:
  Line(const SuiteLine& text, std::string backend, std::uint64_t seed, const InputLists& lists,
       const std::vector<std::string>& variants, Reach& reach)
      : backend_(std::move(backend)), seed_(seed), lists_(lists), reach_(reach), where_(text.where) {
    const CaseSet set = parse_case(text.text, text.where);
    op_ = &op(set.op);
    const Stream stream(seed, text.text);
    std::uint64_t index = 0;
    for (const auto& [key, values] : set.sets) {
      Factor f{key, {}};
      for (const std::string& value : values) {
        ++index;
        std::vector<std::string> here{value};
        if (value == "all") here = all_values(*op_, key, lists, variants, text.where);
        if (value == "default") here = {""};  // that of the attribute
        if (const auto number = drawn(value, stream, index)) here = {*number};
        for (auto& v : here)
          if (std::ranges::find(f.values, v) == f.values.end()) f.values.push_back(std::move(v));
      }
      factors_.push_back(std::move(f));
    }
  }

  const Op& op_of() const { return *op_; }

  // The cases of this line. `hint`: attributes that the backend was found to take of this op, which this line's lists may
  // lack; what is found here is added.
  std::vector<std::string> cases(std::map<std::string, std::string>& hint, bool pairs) {
    std::vector<std::size_t> counts;
    for (const Factor& f : factors_) counts.push_back(f.values.size());
    std::optional<Choice> base = taken(counts, Choice(counts.size(), 0));
    if (!base && !hint.empty()) {
      Choice start(counts.size(), 0);
      for (std::size_t i = 0; i < factors_.size(); ++i) {
        Factor& f = factors_[i];
        const auto known = hint.find(f.key);
        if (known == hint.end()) continue;
        if (std::ranges::find(f.values, known->second) == f.values.end()) f.values.push_back(known->second);
        start[i] = static_cast<std::size_t>(std::ranges::find(f.values, known->second) - f.values.begin());
        counts[i] = f.values.size();
      }
      base = taken(counts, start);
    }
    if (!base) return {};
    const Case plainest = *case_of(*base);
    most_work_ = std::max(kMostWork, work(plainest));
    most_elements_ = std::max(kMostElements, elements(plainest));
    if (hint.empty())
      for (std::size_t i = 0; i < factors_.size(); ++i)
        if (!is_reserved(factors_[i].key)) hint[factors_[i].key] = factors_[i].values[(*base)[i]];
    PairwiseProblem problem{counts, *base, [&](const Choice& c) { return is_valid(c); }, seed_};
    std::vector<std::string> lines;
    for (const Choice& c : pairs ? pairwise(problem) : singles(problem)) {
      Case made = *case_of(c);
      made.backend = backend_;
      lines.push_back(made.line());
    }
    return lines;
  }

 private:
  static std::vector<Choice> singles(const PairwiseProblem& problem) {
    std::vector<Choice> found{problem.base};
    for (std::size_t f = 0; f < problem.values.size(); ++f)
      for (std::size_t v = 0; v < problem.values[f]; ++v) {
        Choice c = problem.base;
        c[f] = v;
        if (v != problem.base[f] && problem.valid(c)) found.push_back(std::move(c));
      }
    return found;
  }
  std::optional<Choice> taken(const std::vector<std::size_t>& counts, const Choice& start) {
    std::vector<std::size_t> joint;  // formats and words: conditions on two of them at once are common
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      const auto spec = std::ranges::find(op_->attributes, factors_[i].key, &AttributeSpec::name);
      if (spec != op_->attributes.end() && spec->kind != AttributeKind::integer &&
          spec->kind != AttributeKind::real)
        joint.push_back(i);
    }
    return nearest_taken(
        counts, start,
        [&](const Choice& choice) -> std::optional<std::string> {
          const auto c = case_of(choice);
          if (!c || !can_be_made(*c)) return std::nullopt;
          return reach_.refusal(*c);
        },
        kMostAsked, joint);
  }

  // Nothing for a case that is impossible in itself.
  std::optional<Case> case_of(const Choice& choice) const {
    CaseSet set{std::string(op_->name), {}};
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (const std::string& value = factors_[i].values[choice[i]]; !value.empty())
        set.sets.emplace_back(factors_[i].key,
                              std::vector{factors_[i].key == "variant" ? escaped_text(value) : value});
    if (std::ranges::none_of(set.sets, [](const auto& s) { return s.first == "seed"; }))
      set.sets.emplace_back("seed", std::vector{fmt::format("{}", seed_)});
    try {
      return expand(set, where_).front();
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  // Some shapes and most faults are refused only when the inputs are made.
  bool can_be_made(const Case& c) {
    if (c.fault == "none") return true;
    Case bare = c;
    bare.variant.clear();
    const auto [at, missing] = possible_.try_emplace(bare.inputs(), true);
    if (missing) {
      try {
        (void)make_inputs(c, lists_);
      } catch (const InputError&) {
        at->second = false;
      }
    }
    return at->second;
  }
  bool is_valid(const Choice& choice) {
    const auto c = case_of(choice);
    return c && work(*c) <= most_work_ && elements(*c) <= most_elements_ && can_be_made(*c) &&
           reach_.refusal(*c).empty();
  }
  static double elements(const Case& c) {
    double sum = 0;
    for (const auto& t : c.op->tensors(c.attributes)) sum += static_cast<double>(element_count(t.shape));
    return sum;
  }
  // What the reference computes is about the outputs' elements times the longest sum: an attribute that is no axis of them.
  static double work(const Case& c) {
    double outputs = 0, longest = 1;
    Shape axes;
    for (const auto& t : c.op->tensors(c.attributes))
      if (t.role == TensorRole::output) {
        outputs += static_cast<double>(element_count(t.shape));
        axes.insert(axes.end(), t.shape.begin(), t.shape.end());
      }
    for (const auto& a : c.op->attributes) {
      if (a.kind != AttributeKind::integer) continue;
      const std::int64_t n = c.attributes.integer(a.name);
      if (std::ranges::find(axes, n) == axes.end()) longest = std::max(longest, static_cast<double>(n));
    }
    return outputs * longest;
  }

  std::string backend_;
  std::uint64_t seed_;
  const InputLists& lists_;
  Reach& reach_;
  std::string where_;
  const Op* op_ = nullptr;
  std::vector<Factor> factors_;
  std::map<std::string, bool> possible_;
  double most_work_ = kMostWork, most_elements_ = kMostElements;
};

std::string factors_file() { return suites_directory() + "/strangers.factors"; }

}  // namespace

std::vector<SuiteLine> stranger_factors() { return read_suite(factors_file()); }
std::string stranger_purpose() { return suite_purpose(factors_file()); }

namespace {

GeneratedSuite generate(const std::vector<SuiteLine>& factors, const std::string& backend, std::uint64_t seed,
                        const InputLists& lists, Workers& workers, bool pairs) {
  const std::vector<std::string> variants = workers.open(backend).variants;
  Reach reach(backend, workers);
  GeneratedSuite suite;
  std::map<std::string, std::map<std::string, std::string>> hints;  // by op
  struct Placed {
    double share;  // of its line that stands before it
    SuiteLine line;
  };
  std::vector<Placed> placed;
  for (const SuiteLine& text : factors) {
    Line line(text, backend, seed, lists, variants, reach);
    const std::string name(line.op_of().name);
    const auto cases = line.cases(hints[name], pairs);
    if (cases.empty()) suite.not_taken.push_back(fmt::format("{}: {}", text.where, name));
    if (!cases.empty() && std::ranges::find(suite.ops, name) == suite.ops.end()) suite.ops.push_back(name);
    for (std::size_t i = 0; i < cases.size(); ++i)
      placed.push_back({static_cast<double>(i) / static_cast<double>(cases.size()), {cases[i], text.where}});
  }
  std::ranges::stable_sort(placed, {}, &Placed::share);
  for (auto& p : placed) suite.lines.push_back(std::move(p.line));
  return suite;
}

}  // namespace

GeneratedSuite generate_suite(const std::vector<SuiteLine>& factors, const std::string& backend,
                              std::uint64_t seed, const InputLists& lists, Workers& workers) {
  return generate(factors, backend, seed, lists, workers, true);
}

GeneratedSuite generate_singles(const std::vector<SuiteLine>& factors, const std::string& backend,
                                std::uint64_t seed, const InputLists& lists, Workers& workers) {
  return generate(factors, backend, seed, lists, workers, false);
}

}  // namespace assay
