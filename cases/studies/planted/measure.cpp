#include "cases/studies/planted/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cases/lists.hpp"
#include "cases/studies/planted/kernel.hpp"
#include "reference/error.hpp"
#include "reference/ops/judged.hpp"

namespace assay::planted {
namespace {

using Key = std::pair<Kind, double>;
using Sights = std::map<Key, Sight>;

Call call_of(const Subject& subject, const std::string& fill, int seed) {
  Call call{expand(parse_case(subject.line)).at(0), subject.contract, {}};
  call.c.fill = fill, call.c.seed = static_cast<std::uint64_t>(seed);
  call.inputs = make_inputs(call.c, input_lists());
  return call;
}

// The largest error / limit: above 1 where it is seen.
double beyond(const Truth& truth, const std::vector<double>& got) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Judged one = judge(got[i], truth.value[i], truth.limit[i]);
    worst = std::max(worst, one.ok ? std::min(1.0, one.ratio) : std::max(one.ratio, 1.0 + 0x1p-20));
    if (!one.ok && std::isnan(one.ratio)) worst = INFINITY;
  }
  return worst;
}

bool is_asked(const Key& key) {
  return std::ranges::any_of(defects(),
                             [&](const Defect& d) { return d.kind == key.first && d.asked == key.second; });
}

std::vector<std::string> fills_of(const Subject& subject, const Effort& effort) {
  if (!effort.only.empty()) return effort.only;
  const std::string op = subject.line.substr(0, subject.line.find(' '));
  if (effort.made) {
    std::vector<std::string> made = {"roll_call", "front_load"};
    if (op == "attention") made.emplace_back("future");  // of which a logit is far above the others
    if (op == "quantize" || op == "dequantize") made.emplace_back("uniform");
    return made;
  }
  std::set<std::string> names;
  for (const Fill& f : fills())
    if ((f.op.empty() || f.op == op) && f.bare.empty()) names.insert(std::string(f.name));
  return {names.begin(), names.end()};
}

// One seed of one fill.
void look(Measured& all, const std::string& fill, int seed, const std::vector<Key>& plants, Sights& sights) {
  const Call call = call_of(all.subject, fill, seed);
  const Op& op = *call.c.op;
  const Truth truth =
      op.truth(call.c.attributes, call.inputs.set, Contract::parse(call.contract, op.contract)).at(0);
  const std::unique_ptr<Kernel> kernel = make_kernel(call);
  if (beyond(truth, kernel->run({})) > 1) {
    if (all.accused++ == 0)
      all.first_accused =
          fmt::format("fill={} seed={}: {:.3g} x limit", fill, seed, beyond(truth, kernel->run({})));
    return;  // what is seen of a defect there shows nothing
  }
  for (const Defect& defect : defects()) {
    bool seen =
        false;  // what is seen is seen where it is larger: from the least size on, up to the first that is seen
    for (const double size : defect.sizes) {
      const Key key{defect.kind, size};
      if (std::ranges::find(plants, key) == plants.end()) continue;
      Sight& sight = sights[key];
      if (!seen) {
        const double moved = beyond(truth, kernel->run({defect.kind, size}));
        sight.moved = std::max(sight.moved, moved);
        seen = moved > 1;
      }
      ++sight.seeds, sight.seen += seen ? 1 : 0;
    }
  }
}

}  // namespace

Measured measure(const Subject& subject, const Effort& effort) {
  Measured all{subject, {}, 0, ""};
  const std::string op = subject.line.substr(0, subject.line.find(' '));
  std::vector<Key> plants;
  for (const Defect& defect : defects())
    if (has(defect, op))
      for (const double size : defect.sizes) plants.emplace_back(defect.kind, size);
  std::map<std::string, Sights> by_fill;
  for (const std::string& fill : fills_of(subject, effort))
    for (int seed = 1; seed <= effort.scouts; ++seed) look(all, fill, seed, plants, by_fill[fill]);
  // Per defect the fills that are judged with all seeds: those that saw it most often, then those that it
  // moved most, and the one that was made for it.
  std::map<std::string, std::set<Key>> chosen;
  for (const Defect& defect : defects()) {
    if (!has(defect, op)) continue;
    std::vector<std::pair<std::pair<int, double>, std::string>> order;
    for (auto& [fill, sights] : by_fill) {
      int seen = 0;
      for (const double size : defect.sizes) seen += sights[{defect.kind, size}].seen;
      order.push_back({{seen, sights[{defect.kind, defect.asked}].moved}, fill});
    }
    std::ranges::sort(order, std::greater<>());
    const std::size_t best =
        effort.made ? order.size() : std::min(order.size(), static_cast<std::size_t>(effort.fills));
    for (std::size_t i = 0; i < best; ++i)
      for (const double size : defect.sizes) chosen[order[i].second].insert({defect.kind, size});
    if (by_fill.contains(std::string(defect.made)))
      for (const double size : defect.sizes) chosen[std::string(defect.made)].insert({defect.kind, size});
  }
  std::map<std::string, Sights> whole;
  for (const auto& [fill, keys] : chosen)
    for (int seed = 1; seed <= effort.seeds; ++seed) {
      std::vector<Key> open;  // a size that was missed too often is settled, but for the one that is asked
      for (const Key& key : keys) {
        const Sight& sight = whole[fill][key];
        if (is_asked(key) || 100 * (sight.seeds - sight.seen) <= effort.seeds) open.push_back(key);
      }
      look(all, fill, seed, open, whole[fill]);
    }
  for (const Defect& defect : defects()) {
    if (!has(defect, op)) continue;
    Found found;
    found.kind = defect.kind;
    std::size_t smallest = defect.sizes.size();
    for (auto& [fill, sights] : whole) {
      const Sight asked = sights[{defect.kind, defect.asked}];
      if (asked.seeds > 0 && (found.fill.empty() || std::pair(asked.seen, asked.moved) >
                                                        std::pair(found.asked.seen, found.asked.moved)))
        found.asked = asked, found.fill = fill;
      for (std::size_t i = 0; i < smallest; ++i)
        if (sights[{defect.kind, defect.sizes[i]}].good())
          smallest = i, found.smallest = defect.sizes[i], found.smallest_fill = fill;
    }
    all.found.push_back(found);
  }
  return all;
}

std::string table_head() {
  std::string head = "| case | arithmetic |", rule = "|---|---|";
  for (const Defect& defect : defects()) head += fmt::format(" {} |", defect.name), rule += "---|";
  return head + "\n" + rule + "\n";
}

// "1 term (equal_onehot)"; "2 terms (needle); 1 term in 37 of 100, 0.6 of a limit (needle)".
std::string table_row(const Measured& measured) {
  std::string row = fmt::format("| {} | {} |", measured.subject.line, measured.subject.path);
  for (const Defect& defect : defects()) {
    const auto found = std::ranges::find(measured.found, defect.kind, &Found::kind);
    if (found == measured.found.end()) {
      row += " |";
      continue;
    }
    std::string cell = found->smallest == 0 ? "nothing"
                                            : fmt::format("{} ({})", spelt(defect.kind, found->smallest),
                                                          found->smallest_fill);
    if (!found->asked.good())
      cell += fmt::format("; {} in {} of {}, {:.2g} of the limit ({})", spelt(defect.kind, defect.asked),
                          found->asked.seen, found->asked.seeds, found->asked.moved, found->fill);
    row += " " + cell + " |";
  }
  return row + "\n";
}

}  // namespace assay::planted
