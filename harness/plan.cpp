#include "harness/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>

#include "harness/backend_names.hpp"
#include "harness/case_file.hpp"
#include "harness/input_lists.hpp"
#include "harness/inputs.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

std::regex compile_filter(const std::string& filter) {
  constexpr std::size_t kLongest = 1024;  // the compiler of expressions is recursive
  if (filter.size() > kLongest)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--filter of {} bytes; allowed: at most {}", filter.size(), kLongest));
  auto how = std::regex::ECMAScript;
#ifdef __GLIBCXX__
  // Without back references, in time linear in the line and on a stack that does not grow with it: (a*)*b
  // ends.
  how |= std::regex_constants::__polynomial;
#endif
  try {
    return std::regex(filter, how);
  } catch (const std::regex_error& e) {
    throw InputError(InputErrorKind::bad_value, fmt::format("--filter '{}': {}", excerpt(filter), e.what()));
  }
}

std::vector<std::string> chosen_backends(const PlanOptions& options, const std::vector<BackendInfo>& known) {
  std::vector<std::string> names = options.backends;
  if (names.empty())
    for (const auto& b : known)
      if (b.is_default && (b.not_built.empty() || b.awaited))
        names.push_back(b.name);  // awaited: refused below
  if (names.empty()) throw InputError(InputErrorKind::bad_value, "no backend was built; see: assay doctor");
  for (const auto& name : names) (void)choose_backend(name, known);
  return names;
}

// Where a case that names a backend may run: there, if --backend names it too or nobody said --backend.
// Options that the case leaves open are those of --backend.
std::vector<std::string> required_backends(const std::string& required,
                                           const std::vector<std::string>& given) {
  if (given.empty()) return {required};
  const BackendName wanted = parse_backend(required, "backend");
  std::vector<std::string> found;
  for (const auto& backend : given)
    if (parse_backend(backend, "--backend").name == wanted.name) {
      const std::string& here = wanted.options.empty() ? backend : required;
      if (std::ranges::find(found, here) == found.end()) found.push_back(here);
    }
  return found;
}

bool names_seed(const CaseSet& set) {
  return std::ranges::any_of(set.sets, [](const auto& s) { return s.first == "seed"; });
}

}  // namespace

std::optional<std::string> variant_for(const Op& op, const std::string& name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || find_op(name.substr(0, colon)) == nullptr) return name;
  if (name.substr(0, colon) != op.name) return std::nullopt;
  return name.substr(colon + 1);
}

Plan make_plan(const std::vector<SuiteLine>& lines, const PlanOptions& options,
               const std::vector<BackendInfo>& known, const InputLists& lists, const VariantsOf& variants) {
  // Those of --backend are checked even if no case is left to them; the default ones when a case names none.
  std::vector<std::string> backends;
  if (!options.backends.empty()) backends = chosen_backends(options, known);
  const std::regex filter = compile_filter(options.filter);
  std::map<std::string, std::vector<std::string>> variants_of;  // asked once per backend
  std::map<std::string, std::size_t> group_of;                  // inputs -> index
  std::vector<std::vector<std::string>> seen;  // per group: lines, so that no case runs twice
  Plan plan;
  plan.lists = lists;
  for (const auto& line : lines) {
    CaseSet set = parse_case(line.text, line.where);
    if (options.seed_given && !names_seed(set))
      set.sets.emplace_back("seed", std::vector{fmt::format("{}", options.seed)});
    for (const auto& base : expand(set, line.where)) {
      check_inputs(base, lists);
      if (base.backend.empty() && backends.empty()) backends = chosen_backends(options, known);
      const auto here = base.backend.empty() ? backends : required_backends(base.backend, options.backends);
      if (here.empty()) ++plan.elsewhere[base.backend];
      for (const auto& backend : here) {
        if (!base.backend.empty()) (void)choose_backend(backend, known);
        std::vector<std::string> names{base.variant};
        if (base.variant == "all") {
          auto [at, missing] = variants_of.try_emplace(backend);
          if (missing) at->second = variants(backend);
          names = at->second.empty() ? std::vector<std::string>{""} : at->second;
        }
        for (const auto& name : names) {
          const std::optional<std::string> variant = variant_for(*base.op, name);
          if (!variant) continue;
          Case c = base;
          c.backend = backend, c.variant = *variant;
          const std::string text = c.line();
          if (!options.filter.empty() && !std::regex_search(text, filter)) continue;
          const auto [at, added] = group_of.try_emplace(c.inputs(), plan.groups.size());
          if (added) plan.groups.emplace_back(), seen.emplace_back();
          auto& lines_here = seen[at->second];
          if (std::ranges::find(lines_here, text) != lines_here.end()) continue;
          lines_here.push_back(text);
          plan.groups[at->second].cases.push_back(std::move(c));
        }
      }
    }
  }
  if (options.shards > 1) {
    std::vector<Group> mine;
    for (std::size_t i = 0; i < plan.groups.size(); ++i)
      if (static_cast<int>(i % static_cast<std::size_t>(options.shards)) == options.shard)
        mine.push_back(std::move(plan.groups[i]));
    plan.groups = std::move(mine);
  }
  for (const auto& g : plan.groups) plan.cases += g.cases.size();
  return plan;
}

}  // namespace assay
