#include "harness/contract_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/judge.hpp"
#include "reference/error.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

constexpr int kMostRounds = 4;       // of all keys; the second mostly moves none
constexpr double kUnclaimed = 1024;  // log2 of a limit that claims nothing

// Values of a key, one of which a kernel may have. Empty: the key stays as it is.
std::vector<std::string> ladder(const KeySpec& key) {
  using Words = std::vector<std::string>;
  Words words;
  if (key.name == "level" || key.name == "schedule" || key.name.ends_with("_abs")) return {};
  // How a store rounds, overflows and flushes: most calls do not tell.
  if (key.name == "round" || key.name == "overflow" || key.name == "nan" || key.name == "ftz") return {};
  switch (key.kind) {
    case KeyKind::accumulator:
      return {"f64", "f32", "bf16", "f16"};
    case KeyKind::rounding:
      return {"f32", "tf32", "f16", "bf16"};
    case KeyKind::order:
      return {"tree", "sequential", "lanes:4", "lanes:8", "lanes:16", "lanes:32", "lanes:64", "any"};
    case KeyKind::real:
      return key.allowed == kUlps
                 ? Words{"0.5", "1", "2", "4", "8", "16", "32", "64", "128", "256", "1024", "4096"}
                 : Words{"0", "1", "2", "3", "4"};
    case KeyKind::word:
      for (const std::string_view word : listed_words(key.allowed)) words.emplace_back(word);
      return words;
    case KeyKind::format:
    case KeyKind::integer:
    case KeyKind::text:
      return {};
  }
  return {};
}

// log2 of a limit. One that decides an element is as wide as the last bit of an f32, or a few of them would
// outweigh the rest.
double width_of(double limit, double value) {
  const double least = std::isfinite(value) ? std::fabs(value) * 0x1p-24 : 0;
  const double width = std::max({limit, least, 0x1p-149});
  return std::isnan(width) ? kUnclaimed : std::min(std::log2(width), kUnclaimed);
}

struct Held {
  std::size_t inside = 0;  // calls within their limits
  double width = 0;        // mean log2 of the limits
  std::size_t first = 0;   // the first call that is not, and what is wrong with it
  std::string what;
  bool possible =
      false;  // the op takes such a contract, and it says something: most calls would show an error of 10 %
};

class Search {
 public:
  explicit Search(std::span<const RecordedCall> calls) : calls_(calls), order_(calls.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  // Of a contract that holds every call so far, one that loses the first is not looked at further unless
  // `whole`.
  const Held& of(const std::string& text, bool whole) {
    const auto found = known_.find(text);
    if (found != known_.end() && (!whole || found->second.second)) return found->second.first;
    return (known_[text] = {measure(text, whole), whole}).first;
  }
  std::size_t tried() const { return known_.size(); }

 private:
  Held measure(const std::string& text, bool whole) try {
    const Contract contract = Contract::parse(text, calls_.front().c.op->contract);
    Held held;
    held.possible = true;
    double sum = 0;
    std::size_t outputs = 0, blind = 0;
    for (std::size_t n = 0; n < order_.size(); ++n) {
      const RecordedCall& call = calls_[order_[n]];
      const auto truths = call.c.op->truth(call.c.attributes, call.inputs.set, contract);
      for (const Truth& t : truths) {
        outputs += t.limit.size();
        for (std::size_t i = 0; i < t.limit.size(); ++i) sum += width_of(t.limit[i], t.value[i]);
      }
      blind += is_blind(sharpness(truths, call.inputs.tensors)) ? 1 : 0;
      const Verdict v = judge_outputs(call.c, contract, call.inputs, truths, call.outputs);
      if (v.status != Status::wrong) {
        ++held.inside;
        continue;
      }
      if (held.what.empty()) held.first = order_[n], held.what = v.summary;
      if (!whole) {  // what rules one contract out often rules out the next
        const auto at = order_.begin() + static_cast<std::ptrdiff_t>(n);
        std::rotate(order_.begin(), at, at + 1);
        return held;
      }
    }
    if (2 * blind > calls_.size()) return {};
    held.width = outputs == 0 ? 0 : sum / static_cast<double>(outputs);
    return held;
  } catch (const InputError&) {  // words that do not go together
    return {};
  }

  std::span<const RecordedCall> calls_;
  std::vector<std::size_t> order_;
  std::map<std::string, std::pair<Held, bool>> known_;
};

bool better(const Held& a, const Held& b) {
  if (a.possible != b.possible) return a.possible;
  if (a.inside != b.inside) return a.inside > b.inside;
  return a.width < b.width;
}

}  // namespace

Proposal propose_contract(const Contract& first, std::span<const RecordedCall> calls,
                          const std::function<bool()>& stopped) {
  const auto& keys = calls.front().c.op->contract;
  Search search(calls);
  Contract best;
  const auto with = [&](const KeySpec& key, const std::string& value) -> std::optional<Contract> {
    try {
      return Contract::parse(best.with(key.name, value).print(), keys);
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  const auto inside = [&](const Contract& contract) { return search.of(contract.print(), true).inside; };
  // Where `best` moves best by one key, of these.
  const auto move = [&](std::span<const KeySpec> among) {
    Contract chosen = best;
    Held of_chosen = search.of(best.print(), true);
    for (const KeySpec& key : among)
      for (const std::string& value : ladder(key)) {
        const std::optional<Contract> other = with(key, value);
        if (!other || *other == best || stopped()) continue;
        const Held held = search.of(other->print(), of_chosen.inside < calls.size());
        if (better(held, of_chosen)) of_chosen = held, chosen = *other;
      }
    const bool moved = !(chosen == best);
    best = chosen;
    return moved;
  };
  // First to where all calls are inside, by the key that brings most of them there; then narrower, key by
  // key.
  const auto from = [&](const Contract& start) {
    best = start;
    while (inside(best) < calls.size() && move(keys)) {
    }
    bool moved = inside(best) == calls.size();
    for (int round = 0; moved && round < kMostRounds && !stopped(); ++round) {
      moved = false;
      for (const KeySpec& key : keys) moved |= move({&key, 1});
    }
    return best;
  };
  // What is declared may be far off, and the defaults nearer.
  Contract narrowest = from(first);
  try {
    const Contract other = from(Contract::parse("", keys));
    if (better(search.of(other.print(), true), search.of(narrowest.print(), true))) narrowest = other;
  } catch (const InputError&) {  // a key that must be given
  }
  best = narrowest;
  Proposal out;
  out.narrowest = best;
  out.calls = calls.size();
  const auto holds = [&](const Contract& contract) {
    return search.of(contract.print(), false).inside == calls.size();
  };
  if (holds(best))
    for (const KeySpec& key : keys) {
      if (stopped() || ladder(key).empty() || key.fallback.empty() || key.fallback.starts_with('@')) continue;
      if (const auto wide = with(key, std::string(key.fallback)); wide && holds(*wide)) best = *wide;
    }
  out.proposed = best;
  const Held held = search.of(best.print(), true);
  out.inside = held.inside;
  if (held.inside < calls.size()) out.outside = fmt::format("{}: {}", calls[held.first].c.line(), held.what);
  for (const KeySpec& key : keys) {
    const std::vector<std::string> values = ladder(key);
    if (values.empty()) continue;
    ProposedWord word{std::string(key.name), std::string(best.text(key.name)), {}};
    double nearest = -2 * kUnclaimed;
    for (const std::string& value : values) {
      const std::optional<Contract> other = with(key, value);
      if (!other || *other == best || stopped()) continue;
      const Held& narrower = search.of(other->print(), true);
      if (!narrower.possible || narrower.inside >= held.inside || narrower.width >= held.width ||
          narrower.width < nearest)
        continue;
      nearest = narrower.width;
      word.narrower = RuledOut{value, calls[narrower.first].c.line(), narrower.what};
    }
    out.words.push_back(std::move(word));
  }
  out.tried = search.tried();
  return out;
}

}  // namespace assay
