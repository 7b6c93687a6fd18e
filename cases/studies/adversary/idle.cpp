#include "cases/studies/adversary/idle.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "cases/lists.hpp"
#include "harness/case.hpp"
#include "harness/inputs.hpp"
#include "reference/fingerprint.hpp"
#include "reference/word_list.hpp"

namespace assay::adversary {
namespace {

// Halves of every kind, sums that cancel, ranges, and what is not finite.
constexpr const char* kFills[] = {"gaussian", "ties",      "quotient_ties", "output_ties",
                                  "extreme",  "subnormal", "sparse",        "cancel",
                                  "ramp",     "outlier",   "ladder",        "wide"};
constexpr const char* kFaults[] = {"nan_code", "inf_value"};

// Values of a key that stand for all that it may have.
std::vector<std::string> values_of(const KeySpec& key) {
  switch (key.kind) {
    case KeyKind::integer:
      return {"1", "2", "3", "4", "8", "16", "128"};
    case KeyKind::real:
      return {"0", "0.5", "1", "2", "8"};
    case KeyKind::rounding:
      return {"bf16", "f16"};
    case KeyKind::accumulator:
      return {"f64", "f32", "f16", "bf16", "hopper_f16", "i32"};
    case KeyKind::order:
      return {"sequential", "tree", "tiles", "descending"};
    case KeyKind::word:
    case KeyKind::format:
    case KeyKind::text:
      break;
  }
  std::vector<std::string> words;
  if (key.kind != KeyKind::text)
    for (const std::string_view word : listed_words(key.allowed)) words.emplace_back(word);
  return words;
}

class Call {
 public:
  explicit Call(const Case& of) : case_(of) {
    const auto add = [&](const char* fill, const char* fault) {
      Case c = of;
      c.fill = fill, c.fault = fault;
      try {
        inputs_.push_back(make_inputs(c, input_lists()).set);
      } catch (const InputError&) {  // this call has no such
      }
    };
    for (const char* fill : kFills) add(fill, "none");
    for (const char* fault : kFaults) add("gaussian", fault);
  }

  // Of all values and limits under a contract; none where it is refused.
  std::optional<std::uint64_t> judged(const std::string& words) {
    const auto [at, missing] = known_.try_emplace(words);
    if (!missing) return at->second;
    try {
      const Contract contract = Contract::parse(words, case_.op->contract);
      Fingerprint all;
      for (const TensorSet& set : inputs_)
        for (const Truth& truth : case_.op->truth(case_.attributes, set, contract))
          for (const auto* numbers : {&truth.value, &truth.limit})
            all.add(numbers->data(), numbers->size() * sizeof(double));
      at->second = all.value();
    } catch (const InputError&) {
    }
    return at->second;
  }

 private:
  const Case& case_;
  std::vector<TensorSet> inputs_;
  std::map<std::string, std::optional<std::uint64_t>> known_;
};

std::string idle_of(const Case& c) {
  struct Said {
    std::string_view key;
    std::string word;
  };
  std::vector<Said> all;
  for (const KeySpec& key : c.op->contract)
    for (const std::string& value : values_of(key))
      if (value != key.fallback) all.push_back({key.name, fmt::format("{}={}", key.name, value)});
  Call call(c);
  if (!call.judged("")) return " refused without a word";
  std::string idle;
  for (const Said& said : all) {
    if (!call.judged(said.word) || call.judged(said.word) != call.judged("")) continue;
    bool acts = false;
    for (const Said& other : all) {
      if (acts || other.key == said.key || !call.judged(other.word)) continue;
      const auto both = call.judged(other.word + " " + said.word);
      acts = both && both != call.judged(other.word);
    }
    if (!acts) idle += " " + said.word;
  }
  return idle;
}

}  // namespace

std::string idle_words(const std::string& line) {
  std::string text;
  for (const Case& c : expand(parse_case(line))) text += fmt::format("{}:{}\n", c.inputs(), idle_of(c));
  return text;
}

}  // namespace assay::adversary
