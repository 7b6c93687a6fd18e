#include "harness/stranger_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "harness/backend_names.hpp"
#include "harness/input_lists.hpp"
#include "reference/inputs/random.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

// A case of the pairwise part stays below these; a line whose plainest case is larger allows what that takes.
constexpr double kMostWork = 3e7;         // output elements times the longest axis that is summed over
constexpr double kMostElements = 3e6;     // of all tensors
constexpr std::size_t kMostAsked = 2500;  // declarations until a line is given up
// An element of a tensor is drawn, encoded, decoded and compared; a term of a sum is a few operations of the
// reference.
constexpr double kTermPerElement = 0.3;

// What `all` stands for.
std::vector<std::string> all_values(const Op& op, const std::string& key, const InputLists& lists,
                                    const std::vector<std::string>& variants, const std::string& where) {
  std::vector<std::string> all;
  const auto add = [&](std::string name) {
    if (std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
  };
  if (key == "fill") {
    // An embedded one stands in place of the bare one, which a kernel could recognise.
    const auto embedded = [&](const Fill& bare) {
      return std::ranges::any_of(lists.fills,
                                 [&](const Fill& f) { return f.bare == bare.name && f.op == bare.op; });
    };
    for (const Fill& f : lists.fills)
      if ((f.op.empty() || f.op == op.name) && !embedded(f)) add(std::string(f.name));
  } else if (key == "fault")
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
    const auto spec = std::ranges::find(op.attributes, key, &KeySpec::name);
    if (spec != op.attributes.end() && spec->kind == KeyKind::format && spec->allowed.empty())
      for (const auto& f : formats()) add(std::string(f.name));
    else if (spec != op.attributes.end() && (spec->kind == KeyKind::format || spec->kind == KeyKind::word))
      for (const std::string_view word : listed_words(spec->allowed)) all.emplace_back(word);
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

double elements(const Case& c) {
  double sum = 0;
  for (const auto& t : c.op->tensors(c.attributes)) sum += static_cast<double>(element_count(t.shape));
  return sum;
}
// What the reference computes is about the outputs' elements times the longest sum: an attribute that is no
// axis of them.
double work(const Case& c) {
  double outputs = 0, longest = 1;
  Shape axes;
  for (const auto& t : c.op->tensors(c.attributes))
    if (t.role == TensorRole::output) {
      outputs += static_cast<double>(element_count(t.shape));
      axes.insert(axes.end(), t.shape.begin(), t.shape.end());
    }
  for (const auto& a : c.op->attributes) {
    if (a.kind != KeyKind::integer) continue;
    const std::int64_t n = c.attributes.integer(a.name);
    if (std::ranges::find(axes, n) == axes.end()) longest = std::max(longest, static_cast<double>(n));
  }
  return outputs * longest;
}

}  // namespace

StrangerLine::StrangerLine(const SuiteLine& text, const StrangerSetting& setting)
    : setting_(setting), where_(text.where), sites_(setting.lists) {
  const CaseSet set = parse_case(text.text, text.where);
  op_ = &assay::op(set.op);
  const Stream stream(setting.seed, text.text);
  std::uint64_t index = 0;
  std::vector<std::string> tied, of_models;  // keys whose values stand together, for they come from one model
  for (const auto& [key, values] : set.sets) {
    Factor f{{key}, {}};
    const auto add = [&](std::string value) {
      if (std::ranges::find(f.values, std::vector{value}) == f.values.end())
        f.values.push_back({std::move(value)});
    };
    for (const std::string& value : values) {
      ++index;
      const std::string name = value.starts_with('@') ? value.substr(1) : "";
      if (!name.empty() && setting.models.has_model_key(name)) {
        tied.push_back(key), of_models.push_back(name);
      } else if (!name.empty()) {
        for (const std::string& v : setting.models.list(name, where_)) add(v);
      } else if (value == "all") {
        for (std::string& v : all_values(*op_, key, setting.lists, setting.variants, where_))
          add(std::move(v));
      } else if (value == "default") {
        add("");  // that of the attribute
      } else {
        add(drawn(value, stream, index).value_or(value));
      }
    }
    if (!f.values.empty()) factors_.push_back(std::move(f));
  }
  const auto fill = std::ranges::find_if(factors_, [](const Factor& f) { return f.keys.front() == "fill"; });
  if (fill != factors_.end()) fill_ = static_cast<std::size_t>(fill - factors_.begin());
  if (!tied.empty()) factors_.push_back({tied, setting.models.together(*op_, tied, of_models)});
}

std::vector<std::size_t> StrangerLine::counts() const {
  std::vector<std::size_t> counts;
  for (const Factor& f : factors_) counts.push_back(f.values.size());
  return counts;
}

bool StrangerLine::find_base(OpReach& known) {
  most_work_ = most_elements_ = std::numeric_limits<double>::infinity();
  std::optional<Choice> base = taken(Choice(factors_.size(), 0), known);
  if (!base && !known.taken.empty()) {
    Choice start(factors_.size(), 0);
    for (std::size_t i = 0; i < factors_.size(); ++i) {
      Factor& f = factors_[i];
      const auto value_of = f.keys.size() == 1 ? known.taken.find(f.keys.front()) : known.taken.end();
      if (value_of == known.taken.end()) continue;
      const std::vector value{value_of->second};
      if (std::ranges::find(f.values, value) == f.values.end()) f.values.push_back(value);
      start[i] = static_cast<std::size_t>(std::ranges::find(f.values, value) - f.values.begin());
    }
    base = taken(start, known);
  }
  if (!base) return false;
  const Case plainest = *case_of(*base);
  most_work_ = std::max(kMostWork, work(plainest));
  most_elements_ = std::max(kMostElements, elements(plainest));
  answers_.clear();  // of another allowance, and of another base
  if (known.taken.empty())
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (const Factor& f = factors_[i]; f.keys.size() == 1 && !is_reserved(f.keys.front()))
        known.taken[f.keys.front()] = f.values[(*base)[i]].front();
  base_ = *std::move(base);
  return true;
}

std::vector<Case> StrangerLine::next(std::size_t most) {
  if (!pairs_)
    pairs_.emplace(PairwiseProblem{counts(), base_, [this](std::span<const Choice> c) { return reasons(c); },
                                   setting_.seed});
  return cases_of(pairs_->next(most));
}

std::vector<Case> StrangerLine::singles() {
  std::vector<Choice> choices{base_};
  for (std::size_t f = 0; f < factors_.size(); ++f)
    for (std::size_t v = 0; v < factors_[f].values.size(); ++v)
      if (v != base_[f]) choices.emplace_back(base_)[f] = v;
  const std::vector<std::string> refused = reasons(choices);
  std::vector<Choice> found;
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (i == 0 || refused[i].empty()) found.push_back(choices[i]);
  return cases_of(found);
}

std::vector<Case> StrangerLine::histories(std::set<std::string>& seen, std::size_t most) {
  const auto behind = [](Case last, Case first) {
    first.backend.clear();
    last.after = {first.line()};
    return last;
  };
  const auto is_kernel = [](const Factor& f) { return f.keys.front() == "variant"; };
  const auto kernel = static_cast<std::size_t>(std::ranges::find_if(factors_, is_kernel) - factors_.begin());
  std::vector<Case> cases;
  for (std::size_t f = 0; f < factors_.size(); ++f) {
    const auto spec = std::ranges::find(op_->attributes, factors_[f].keys.front(), &KeySpec::name);
    if (factors_[f].keys.size() > 1 || spec == op_->attributes.end() ||
        (spec->kind != KeyKind::real && spec->kind != KeyKind::word) ||
        seen.contains(factors_[f].keys.front()))
      continue;
    const std::size_t kernels = kernel < factors_.size() ? factors_[kernel].values.size() : 1;
    for (std::size_t k = 0; k < kernels && cases.size() + 2 <= most; ++k) {
      Choice one = base_;
      if (kernel < factors_.size()) one[kernel] = k;
      std::vector<Choice> choices{one};
      for (std::size_t v = 0; v < factors_[f].values.size(); ++v)
        if (v != base_[f]) choices.emplace_back(one)[f] = v;
      const std::vector<std::string> refused = reasons(choices);
      std::size_t other = choices.size() - 1;  // the last that is taken
      while (other > 0 && !refused[other].empty()) --other;
      if (!refused[0].empty() || other == 0) continue;
      const std::vector<Case> two = cases_of({one, choices[other]});
      cases.push_back(behind(two[0], two[1])), cases.push_back(behind(two[1], two[0]));
      seen.insert(factors_[f].keys.front());
    }
  }
  return cases;
}

double StrangerLine::cost(const Case& c) { return elements(c) + kTermPerElement * work(c); }

std::vector<Case> StrangerLine::cases_of(const std::vector<Choice>& choices) const {
  std::vector<Case> cases;
  for (const Choice& c : choices) {
    cases.push_back(*case_of(c));
    cases.back().backend = setting_.backend;
  }
  return cases;
}

std::string StrangerLine::pair_text(const Choice& c, std::size_t f, std::size_t g) const {
  return fmt::format("{}={} {}={}", factors_[f].keys.front(), factors_[f].values[c[f]].front(),
                     factors_[g].keys.front(), factors_[g].values[c[g]].front());
}

std::optional<Choice> StrangerLine::taken(const Choice& start, OpReach& known) {
  std::vector<std::size_t> joint, sizes;  // formats and words: conditions on two of them at once are common
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const auto spec = std::ranges::find(op_->attributes, factors_[i].keys.front(), &KeySpec::name);
    if (spec == op_->attributes.end()) continue;
    const bool number = spec->kind == KeyKind::integer || spec->kind == KeyKind::real;
    (number ? sizes : joint).push_back(i);
  }
  std::set<std::string> tried;
  const auto found =
      nearest_taken({counts(), [&](std::span<const Choice> c) { return refusals(c); }, kMostAsked, joint,
                     sizes, [&](const Choice& c) { return case_of(c).has_value(); },
                     [&](const Choice& c, std::size_t f, std::size_t g) {
                       return known.in_vain.contains(*tried.insert(pair_text(c, f, g)).first);
                     }},
                    start);
  if (!found) known.in_vain.merge(tried);
  return found;
}

// Nothing for a case that is impossible in itself.
std::optional<Case> StrangerLine::case_of(const Choice& choice) const {
  CaseSet set{std::string(op_->name), {}};
  for (std::size_t i = 0; i < factors_.size(); ++i)
    for (std::size_t k = 0; k < factors_[i].keys.size(); ++k)
      if (const std::string &key = factors_[i].keys[k], &value = factors_[i].values[choice[i]][k];
          !value.empty())
        set.sets.emplace_back(key, std::vector{key == "variant" ? escaped_text(value) : value});
  if (std::ranges::none_of(set.sets, [](const auto& s) { return s.first == "seed"; }))
    set.sets.emplace_back("seed", std::vector{fmt::format("{}", setting_.seed)});
  try {
    return expand(set, where_).front();
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// The choice with the base's sizes, and without what a fault does not ask for. A size of at most kFew is one
// that it may ask for: another head, a second column, pages at all.
Choice StrangerLine::plain_sizes(Choice choice) const {
  constexpr double kFew = 2;
  for (std::size_t i = 0; i < choice.size() && !base_.empty(); ++i) {
    const Factor& f = factors_[i];
    const auto is_many = [&](std::size_t v) {
      return std::ranges::all_of(f.values[v], [&](const std::string& text) {
        double n = 0;
        return std::from_chars(text.data(), text.data() + text.size(), n).ec == std::errc{} && n > kFew;
      });
    };
    if (f.keys.front() == "fill" || f.keys.front() == "layout" || f.keys.front() == "variant" ||
        (is_many(choice[i]) && is_many(base_[i])))
      choice[i] = base_[i];
  }
  return choice;
}

// Most faults are refused only when the inputs are made. It is the formats and words that decide: they are
// made for plain sizes, once; what a case's own sizes forbid beyond that the run finds out, and leaves the
// case out.
bool StrangerLine::can_be_made(const Choice& choice) {
  std::optional<Case> c = case_of(plain_sizes(choice));
  if (!c) c = case_of(choice);
  const auto [at, missing] = possible_.try_emplace(c->inputs(), true);
  if (missing) at->second = sites_.finds(*c);
  return at->second;
}

// Of each choice the reason why it is not taken, "" where it is; nothing for one that is impossible, or
// larger than the line allows. The backend is asked before inputs are made: that costs less. Nothing of it
// depends on the fill.
std::vector<std::optional<std::string>> StrangerLine::refusals(std::span<const Choice> choices) {
  std::vector<Choice> plain(choices.begin(), choices.end());
  std::vector<Case> cases;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (fill_) plain[i][*fill_] = 0;
    if (!answers_.try_emplace(plain[i]).second) continue;
    auto c = case_of(plain[i]);
    if (!c || work(*c) > most_work_ || elements(*c) > most_elements_) continue;
    cases.push_back(*std::move(c));
    of.push_back(i);
  }
  std::vector<std::string> reasons = setting_.reach.refusals(cases);
  for (std::size_t k = 0; k < of.size(); ++k)
    if (!reasons[k].empty() || cases[k].fault == "none" || can_be_made(plain[of[k]]))
      answers_[plain[of[k]]] = std::move(reasons[k]);
  std::vector<std::optional<std::string>> found;
  for (const Choice& c : plain) found.push_back(answers_.at(c));
  return found;
}

// As refusals(), "" for what is taken; without the values' own names, so that one reason for many formats is
// one.
std::vector<std::string> StrangerLine::reasons(std::span<const Choice> choices) {
  std::vector<std::string> found;
  const auto all = refusals(choices);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string text = all[i].value_or("impossible");
    for (std::size_t f = 0; f < factors_.size(); ++f) {
      const std::string& value = factors_[f].values[choices[i][f]].front();
      if (value.size() < 2) continue;
      for (std::size_t at = 0; (at = text.find(value, at)) != std::string::npos; ++at)
        text.replace(at, value.size(), "*");
    }
    found.push_back(std::move(text));
  }
  return found;
}

}  // namespace assay
