#include "harness/cli/hunt_laws.hpp"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace assay {
namespace {

// Nothing where the case cannot be made, where the law says nothing of it, or where it is kept.
std::optional<LawResult> red_law(const Law& law, const Case& c, const LawHunt& hunt) {
  try {
    auto result =
        check_law(law, LawCall{c, make_inputs(c, hunt.lists)}, hunt.workers, hunt.lists, hunt.judge);
    if (result && result->red()) return result;
  } catch (const InputError&) {
  }
  return std::nullopt;
}

}  // namespace

std::vector<LawResult> broken_laws(const std::vector<Case>& cases, std::span<const Law> laws,
                                   const LawHunt& hunt) {
  std::vector<LawResult> found;
  std::set<std::tuple<std::string_view, const Op*, std::string, std::string>> kinds;
  for (const Case& c : cases)
    for (const Law& law : laws) {
      if (hunt.stopped()) return found;
      const std::tuple kind{law.name, c.op, c.backend, c.variant};
      if (kinds.contains(kind)) continue;
      if (auto result = red_law(law, c, hunt)) kinds.insert(kind), found.push_back(std::move(*result));
    }
  return found;
}

LawResult smallest_case(const LawResult& found, std::chrono::milliseconds budget, const LawHunt& hunt) {
  const auto end = std::chrono::steady_clock::now() + budget;
  LawResult best = found;
  const auto smaller = [&](const KeySpec& spec) {
    const std::int64_t is = best.c.attributes.integer(spec.name);
    for (const std::int64_t to : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, is / 2, is - 1}) {
      if (to < 0 || to >= is || hunt.stopped() || std::chrono::steady_clock::now() > end) continue;
      CaseSet set = parse_case(best.c.line());
      std::erase_if(set.sets, [&](const auto& s) { return s.first == spec.name; });
      set.sets.emplace_back(std::string(spec.name), std::vector{fmt::format("{}", to)});
      try {
        if (auto result = red_law(*found.law, expand(set).front(), hunt)) {
          best = std::move(*result);
          return true;
        }
      } catch (const InputError&) {  // no such case
      }
    }
    return false;
  };
  for (bool again = true; again;) {
    again = false;
    for (const KeySpec& spec : best.c.op->attributes)
      if (spec.kind == KeyKind::integer) again = smaller(spec) || again;
  }
  return best;
}

}  // namespace assay
