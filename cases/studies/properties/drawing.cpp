#include "cases/studies/properties/families.hpp"

namespace assay::property_families {

std::int64_t drawn(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(low, high + 1));
}

std::string number(std::int64_t n) { return std::to_string(n); }

std::vector<std::string> taken(Subject& subject, const std::vector<std::string>& lines) {
  std::vector<Case> cases;
  for (const std::string& line : lines) {
    try {
      const Case c = properties::a_case(line);
      (void)make_empty_call(c);
      cases.push_back(c);
    } catch (const InputError&) {  // impossible in itself: a policy that a format has not
    }
  }
  (void)subject.workers().open(subject.backend());
  const auto refusals = subject.reach().refusals(cases);
  std::vector<std::string> list;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (refusals[i].empty()) list.push_back(cases[i].line());
  if (list.empty()) throw NotTaken{cases.empty() ? "nothing of it is possible" : refusals.front()};
  return list;
}

Draws always(rc::Gen<Steps> draws) {
  return {[draws = std::move(draws)](std::uint64_t) { return draws; }};
}

const Step& only(const Steps& steps, std::string_view name) {
  if (steps.size() != 1 || steps[0].name != name)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("a draw of this property is one step '{} ...'", name));
  return steps[0];
}

}  // namespace assay::property_families
